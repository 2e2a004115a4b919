#include "device/kernel_library.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>

#include "base/error.h"
#include "base/temporary_file.h"

namespace ferry {
namespace {

namespace fs = std::filesystem;

// Of the driver's attributes of a device.
constexpr int kComputeCapabilityMajor = 75;
constexpr int kComputeCapabilityMinor = 76;

// Far more than fill a GPU, far fewer than a grid may have.
constexpr std::int64_t kMostBlocks = 1 << 20;

std::string key_of(const KernelSource& source, const std::string& architecture,
                   const Nvrtc& compiler) {
  std::string key = "ferry kernels; " + architecture + "; NVRTC " + compiler.version();
  for (const std::string& option : source.options) key += "; " + option;
  return key + "\n" + source.text;
}

/// What follows the key in a file that begins with it and its own length; nothing when the file is
/// of another key or not whole.
std::optional<std::string> kept(const fs::path& path, const std::string& key) {
  if (!fs::is_regular_file(path)) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  std::string all{std::istreambuf_iterator<char>(file), {}};
  const std::size_t line = all.find('\n');
  if (line == std::string::npos || all.substr(0, line) != std::to_string(all.size() - line - 1)) {
    return std::nullopt;
  }
  if (all.compare(line + 1, key.size(), key) != 0) return std::nullopt;
  return all.substr(line + 1 + key.size());
}

void keep(const fs::path& path, const std::string& key, const std::string& cubin) {
  try {
    fs::create_directories(path.parent_path());
    TemporaryFile file(path);
    file.append(std::to_string(key.size() + cubin.size()) + "\n" + key + cubin);
    file.rename();
  } catch (const ResourceError&) {
    // The next run compiles again.
  } catch (const fs::filesystem_error&) {
  }
}

}  // namespace

KernelCode kernel_code(const KernelSource& source, const std::string& architecture,
                       const Nvrtc& compiler, const KernelFile& file) {
  const std::string key = key_of(source, architecture, compiler);
  const fs::path path = file ? file(key) : fs::path();
  if (!path.empty()) {
    if (auto cubin = kept(path, key)) return {std::move(*cubin), path};
  }
  KernelCode made{compiler.compile(source.text, architecture, source.options).cubin, {}};
  if (!path.empty()) keep(path, key, made.cubin);
  return made;
}

std::string architecture_of(const CudaDriver& driver, int index) {
  int device = 0, major = 0, minor = 0;
  driver.require(driver.init(0), "starting the CUDA driver");
  driver.require(driver.device_get(&device, index), "opening CUDA device " + std::to_string(index));
  driver.require(driver.device_get_attribute(&major, kComputeCapabilityMajor, device),
                 "asking for the compute capability");
  driver.require(driver.device_get_attribute(&minor, kComputeCapabilityMinor, device),
                 "asking for the compute capability");
  return "sm_" + std::to_string(major) + std::to_string(minor);
}

KernelLibrary::KernelLibrary(const CudaDriver& driver, int index, const std::string& cubin)
    : driver_(driver) {
  driver_.require(driver_.device_get(&device_, index),
                  "opening CUDA device " + std::to_string(index));
  driver_.require(driver_.primary_context_retain(&context_, device_), "taking the CUDA context");
  const int current = driver_.context_set_current(context_);
  const int loaded = current == 0 ? driver_.module_load_data(&module_, cubin.data()) : current;
  if (loaded == 0) return;
  driver_.primary_context_release(device_);
  driver_.require(loaded, "loading compiled kernels");
}

// What fails here has nobody to go to: the process is about to end, or its device is lost.
KernelLibrary::~KernelLibrary() {
  if (driver_.context_set_current(context_) == 0) driver_.module_unload(module_);
  driver_.primary_context_release(device_);
}

void* KernelLibrary::function(const char* kernel) const {
  void*& found = functions_[kernel];
  if (found == nullptr) {
    driver_.require(driver_.module_get_function(&found, module_, kernel),
                    std::string("finding kernel ") + kernel);
  }
  return found;
}

void KernelLibrary::launch_with(void* stream, const char* kernel, std::int64_t threads,
                                void** parameters) const {
  if (threads <= 0) return;
  const std::string what = std::string("launching kernel ") + kernel;
  // A thread of this process may not have used the device yet; a switch costs next to nothing.
  driver_.require(driver_.context_set_current(context_), what);
  const auto blocks =
      static_cast<unsigned>(std::min((threads + kBlockThreads - 1) / kBlockThreads, kMostBlocks));
  driver_.require(driver_.launch_kernel(function(kernel), blocks, 1, 1, kBlockThreads, 1, 1, 0,
                                        stream, parameters, nullptr),
                  what);
}

}  // namespace ferry
