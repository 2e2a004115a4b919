#include "device/host_registration.h"

#include <dlfcn.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "device/cuda_runtime.h"
#include "simdev/simdev.h"

namespace ferry {
namespace {

constexpr unsigned kCudaHostRegisterPortable = 1;  // locked for all devices

struct CudaRuntime {
  int (*host_register)(void*, std::size_t, unsigned);
  int (*host_unregister)(void*);
  int (*get_last_error)();  // also clears it
  const char* (*get_error_string)(int);
};

template <typename Function>
void find(const char* name, Function& function) {
  function = cuda_function<std::remove_pointer_t<Function>>(name);
  if (function == nullptr) {
    throw ResourceError(std::string("the CUDA runtime has no ") + name + ": " + dlerror());
  }
}

CudaRuntime load_cuda_runtime() {
  CudaRuntime cuda{};
  find("cudaHostRegister", cuda.host_register);
  find("cudaHostUnregister", cuda.host_unregister);
  find("cudaGetLastError", cuda.get_last_error);
  find("cudaGetErrorString", cuda.get_error_string);
  return cuda;
}

/// The text of a CUDA error, which is cleared: it must not surface in a later call of torch's.
std::string text_of(const CudaRuntime& cuda, int error) {
  if (error == 0) return "";
  cuda.get_last_error();
  return cuda.get_error_string(error);
}

PageLocking cuda_page_locking() {
  const CudaRuntime cuda = load_cuda_runtime();
  return {[cuda](std::span<std::byte> chunk) {
            return text_of(
                cuda, cuda.host_register(chunk.data(), chunk.size(), kCudaHostRegisterPortable));
          },
          [cuda](std::span<std::byte> chunk) {
            return text_of(cuda, cuda.host_unregister(chunk.data()));
          }};
}

PageLocking simulated_page_locking() {
  return {[](std::span<std::byte> chunk) {
            return simdev_lock_pages(chunk.data(), {static_cast<std::int64_t>(chunk.size())});
          },
          [](std::span<std::byte> chunk) { return simdev_unlock_pages(chunk.data()); }};
}

}  // namespace

HostRegistration::HostRegistration(const Device& device, std::span<std::byte> memory,
                                   PhaseListener& listener) {
  locking_ = device.simulated() ? simulated_page_locking() : cuda_page_locking();
  lock(memory, kLargestChunk, listener);
}

HostRegistration::HostRegistration(PageLocking locking, std::span<std::byte> memory,
                                   Bytes largest_chunk, PhaseListener& listener)
    : locking_(std::move(locking)) {
  lock(memory, largest_chunk, listener);
}

HostRegistration::~HostRegistration() { unlock_all(); }

HostRegistration::HostRegistration(HostRegistration&& other) noexcept
    : locking_(std::move(other.locking_)), locked_(std::exchange(other.locked_, {})) {}

void HostRegistration::lock(std::span<std::byte> memory, Bytes largest_chunk,
                            PhaseListener& listener) {
  FERRY_CHECK(largest_chunk > 0_B, "chunks need a size");
  const auto largest = static_cast<std::size_t>(largest_chunk.count);
  ProgressCount count(listener, "page-locking", static_cast<std::int64_t>(memory.size()));
  for (std::size_t begin = 0; begin < memory.size(); begin += largest) {
    const auto chunk = memory.subspan(begin, std::min(largest, memory.size() - begin));
    const std::string error = locking_.lock(chunk);
    if (!error.empty()) {
      unlock_all();
      throw ResourceError("page-locking " +
                          to_string(Bytes{static_cast<std::int64_t>(memory.size())}) +
                          " of host memory failed at byte " + std::to_string(begin) + ": " + error);
    }
    locked_.push_back(chunk);
    count.advance(static_cast<std::int64_t>(chunk.size()));
  }
}

// An error while unlocking has nobody to go to: the process keeps the pages locked until it ends.
void HostRegistration::unlock_all() {
  for (; !locked_.empty(); locked_.pop_back()) locking_.unlock(locked_.back());
}

}  // namespace ferry
