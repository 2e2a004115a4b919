// Kernels of our own on one CUDA device: compiled when a program first needs them, kept in a file
// from then on, launched on streams that torch made. Knows nothing of torch.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>

#include "device/cuda_driver.h"
#include "device/nvrtc.h"

namespace ferry {

/// The file that keeps what depends on all that `key` says; an empty path: nothing is kept.
using KernelFile = std::function<std::filesystem::path(const std::string& key)>;

/// What is compiled: CUDA C++ with extern "C" kernels.
struct KernelSource {
  std::string text;
  std::span<const std::string> options;  // of NVRTC, without the architecture
};

/// Machine code of one architecture.
struct KernelCode {
  std::string cubin;
  std::filesystem::path file;  // where it was kept; empty: it was compiled now
};

/// The code that `file` keeps for this source, these options, this compiler and `architecture`
/// ("sm_90"); else compiles it and keeps it. A file that cannot be written is done without.
/// Throws ResourceError when the compiler refuses.
KernelCode kernel_code(const KernelSource& source, const std::string& architecture,
                       const Nvrtc& compiler, const KernelFile& file);

/// The architecture of device `index`, "sm_90". Throws ResourceError without such a device.
std::string architecture_of(const CudaDriver& driver, int index);

/// Loaded kernels of one device. Launches come from one thread at a time; it must outlive them.
class KernelLibrary {
 public:
  /// Threads of a block.
  static constexpr unsigned kBlockThreads = 256;

  /// Loads `cubin` into the primary context of device `index`, which torch uses too. Throws
  /// ResourceError when the driver refuses.
  KernelLibrary(const CudaDriver& driver, int index, const std::string& cubin);
  ~KernelLibrary();
  KernelLibrary(const KernelLibrary&) = delete;
  KernelLibrary& operator=(const KernelLibrary&) = delete;

  /// Enqueues `kernel` on `stream`, with a thread for each of `threads` indices or, beyond what a
  /// launch may have, fewer that go on by the stride of the grid. Requires: arguments of the very
  /// types of its parameters. Throws ResourceError when the driver refuses.
  template <typename... Arguments>
  void launch(void* stream, const char* kernel, std::int64_t threads,
              Arguments... arguments) const {
    std::array<void*, sizeof...(Arguments)> parameters = {&arguments...};
    launch_with(stream, kernel, threads, parameters.data());
  }

 private:
  void launch_with(void* stream, const char* kernel, std::int64_t threads, void** parameters) const;
  void* function(const char* kernel) const;

  const CudaDriver driver_;
  int device_ = 0;
  void* context_ = nullptr;
  void* module_ = nullptr;
  mutable std::map<std::string, void*> functions_;  // that were launched
};

}  // namespace ferry
