#include "device/nvrtc.h"

#include <array>
#include <memory>
#include <vector>

#include "base/error.h"

namespace ferry {
namespace {

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

// torch's own library for it knows where its packages lie; the others are a toolkit's.
Nvrtc Nvrtc::of_torch() {
  const std::array<std::string, 3> names = {"libcaffe2_nvrtc.so", "libnvrtc.so.13",
                                            "libnvrtc.so.12"};
  return load(names);
}

Nvrtc Nvrtc::load(std::span<const std::string> names) { return Nvrtc(SharedLibrary::load(names)); }

Nvrtc::Nvrtc(const SharedLibrary& library) {
  library.find("nvrtcVersion", functions_.version);
  library.find("nvrtcGetErrorString", functions_.error_string);
  library.find("nvrtcCreateProgram", functions_.create);
  library.find("nvrtcDestroyProgram", functions_.destroy);
  library.find("nvrtcCompileProgram", functions_.compile);
  library.find("nvrtcGetProgramLogSize", functions_.log_size);
  library.find("nvrtcGetProgramLog", functions_.log);
  library.find("nvrtcGetCUBINSize", functions_.cubin_size);
  library.find("nvrtcGetCUBIN", functions_.cubin);
  library.find("nvrtcGetPTXSize", functions_.ptx_size);
  library.find("nvrtcGetPTX", functions_.ptx);
}

std::string Nvrtc::version() const {
  int major = 0, minor = 0;
  require(functions_.version(&major, &minor), "asking NVRTC for its version");
  return std::to_string(major) + "." + std::to_string(minor);
}

CompiledKernels Nvrtc::compile(const std::string& source, const std::string& architecture,
                               std::span<const std::string> options) const {
  Program made = nullptr;
  require(functions_.create(&made, source.c_str(), "kernels.cu", 0, nullptr, nullptr),
          "making a program");
  const auto destroy = [this](Program program) { functions_.destroy(&program); };
  const std::unique_ptr<void, decltype(destroy)> program(made, destroy);

  const std::string target = "--gpu-architecture=" + architecture;
  std::vector<const char*> arguments = {target.c_str()};
  for (const std::string& option : options) arguments.push_back(option.c_str());
  const int status =
      functions_.compile(program.get(), static_cast<int>(arguments.size()), arguments.data());
  if (status != 0) {
    const std::string log = text(program.get(), functions_.log_size, functions_.log);
    throw ResourceError("NVRTC " + version() + " compiles no kernels for " + architecture + ": " +
                        functions_.error_string(status) +
                        (log.empty() ? "" : ": " + first_line(log)));
  }
  return {text(program.get(), functions_.cubin_size, functions_.cubin),
          text(program.get(), functions_.ptx_size, functions_.ptx)};
}

/// Sizes count a last zero byte in texts, and none in machine code, which may end in one.
std::string Nvrtc::text(Program program, int (*size)(Program, std::size_t*),
                        int (*read)(Program, char*)) const {
  std::size_t bytes = 0;
  require(size(program, &bytes), "asking NVRTC for a size");
  std::string found(bytes, '\0');
  if (bytes > 0) require(read(program, found.data()), "reading what NVRTC made");
  if (size != functions_.cubin_size && !found.empty()) found.pop_back();
  return found;
}

void Nvrtc::require(int status, const char* what) const {
  if (status == 0) return;
  throw ResourceError(std::string(what) + ": " + functions_.error_string(status));
}

}  // namespace ferry
