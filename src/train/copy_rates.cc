#include "train/copy_rates.h"

#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "device/device.h"
#include "device/host_registration.h"
#include "device/tensor_views.h"
#include "store/host_slab.h"

namespace ferry {
namespace {

constexpr int kWarmUps = 1;
constexpr int kRounds = 5;
constexpr int kCopies = 4;  // per round, one after the other

/// One device with as much memory of its own as of the host's.
class Ends {
 public:
  Ends(const std::string& name, Bytes size)
      : device_(Device::open(name)), slab_(device_.slab(size)), memory_(size) {
    memory_.touch(1);
    locked_ = std::make_unique<HostRegistration>(device_, memory_.bytes());
    host_ = host_view(memory_.bytes(), {size.count}, at::kByte);
  }

  void enqueue(bool up) {
    const c10::StreamGuard current(device_.stream("copies"));
    for (int i = 0; i < kCopies; ++i) {
      (up ? slab_ : host_).copy_(up ? host_ : slab_, /*non_blocking=*/true);
    }
  }

  void wait() const { device_.synchronize(); }

 private:
  Device device_;
  at::Tensor slab_;
  HostSlab memory_;
  std::unique_ptr<HostRegistration> locked_;  // goes before the memory
  at::Tensor host_;
};

double rate(std::span<const std::unique_ptr<Ends>> all, Bytes size, bool up) {
  std::vector<double> seconds;
  for (int round = 0; round < kWarmUps + kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (const auto& ends : all) ends->enqueue(up);
    for (const auto& ends : all) ends->wait();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    if (round >= kWarmUps) seconds.push_back(taken.count());
  }
  std::ranges::sort(seconds);
  return static_cast<double>(size.count) * kCopies * static_cast<double>(all.size()) /
         seconds[kRounds / 2];
}

}  // namespace

CopyRates measure_copies(std::span<const std::string> devices, Bytes size) {
  FERRY_CHECK(!devices.empty() && size > 0_B, "a copy needs a device and bytes");
  try {
    std::vector<std::unique_ptr<Ends>> all;
    for (const std::string& name : devices) all.push_back(std::make_unique<Ends>(name, size));
    return {.up = rate(all, size, true), .down = rate(all, size, false)};
  } catch (const c10::Error& error) {
    throw ResourceError("measuring copies of " + devices.front() + ": " +
                        error.what_without_backtrace());
  }
}

}  // namespace ferry
