#include "train/copy_rates.h"

#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "base/median.h"
#include "device/device.h"
#include "device/host_registration.h"
#include "device/straight_copy.h"
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
  Ends(const std::string& name, Bytes size, std::span<const int> nodes)
      : device_(Device::open(name)), slab_(device_.slab(size)), memory_(size) {
    if (!nodes.empty()) static_cast<void>(memory_.lie_on(nodes));  // refused: as in a run
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

/// Bytes per second at which `enqueue` moves so many in a round, until `wait` returns: the median
/// round's.
template <typename Enqueue, typename Wait>
double rate_of(double bytes, const Enqueue& enqueue, const Wait& wait) {
  std::vector<double> seconds;
  for (int round = 0; round < kWarmUps + kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    enqueue();
    wait();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    if (round >= kWarmUps) seconds.push_back(taken.count());
  }
  return bytes / median(std::move(seconds));
}

double rate(std::span<const std::unique_ptr<Ends>> all, Bytes size, bool up) {
  const auto enqueue = [&] {
    for (const auto& ends : all) ends->enqueue(up);
  };
  const auto wait = [&] {
    for (const auto& ends : all) ends->wait();
  };
  const double bytes = static_cast<double>(size.count) * kCopies * static_cast<double>(all.size());
  return rate_of(bytes, enqueue, wait);
}

/// One device with a slab to send from or to receive in.
struct Peer {
  Peer(const std::string& name, Bytes size) : device(Device::open(name)), slab(device.slab(size)) {}

  Device device;
  at::Tensor slab;
};

bool is_allowed(const Device& from, const Device& to) {
  if (from.simulated() || to.simulated()) return true;
  return has_peer_access(from.torch_device().index(), to.torch_device().index()).value_or(true);
}

PeerRate peer_rate(Peer& from, Peer& to) {
  PeerRate found;
  found.allowed = is_allowed(from.device, to.device);
  if (!found.allowed) return found;
  found.whole = arrive_whole(from.device, from.slab, to.device, to.slab);
  const StraightCopies way(from.device, to.device, "peers");
  const auto enqueue = [&] {
    const c10::StreamGuard current(from.device.stream("peers"));
    for (int i = 0; i < kCopies; ++i) way.copy(from.slab, to.slab);
  };
  const double bytes = static_cast<double>(from.slab.numel()) * kCopies;
  found.rate = rate_of(bytes, enqueue, [&] { from.device.synchronize(); });
  return found;
}

}  // namespace

CopyRates measure_copies(std::span<const std::string> devices, Bytes size,
                         std::span<const int> nodes) {
  FERRY_CHECK(!devices.empty() && size > 0_B, "a copy needs a device and bytes");
  try {
    std::vector<std::unique_ptr<Ends>> all;
    for (const std::string& name : devices) {
      all.push_back(std::make_unique<Ends>(name, size, nodes));
    }
    return {.up = rate(all, size, true), .down = rate(all, size, false)};
  } catch (const c10::Error& error) {
    throw ResourceError("measuring copies of " + devices.front() + ": " +
                        error.what_without_backtrace());
  }
}

std::vector<PeerRate> measure_peers(std::span<const std::string> devices, Bytes size) {
  FERRY_CHECK(size > 0_B, "a copy needs bytes");
  std::vector<PeerRate> found;
  try {
    std::vector<Peer> peers;
    for (const std::string& name : devices) peers.emplace_back(name, size);
    for (std::size_t from = 0; from < peers.size(); ++from) {
      for (std::size_t to = 0; to < peers.size(); ++to) {
        if (from == to) continue;
        found.push_back(peer_rate(peers[from], peers[to]));
        found.back().from = static_cast<int>(from);
        found.back().to = static_cast<int>(to);
      }
    }
  } catch (const c10::Error& error) {
    throw ResourceError("measuring copies between devices: " +
                        std::string(error.what_without_backtrace()));
  }
  return found;
}

}  // namespace ferry
