// Times and weighs what is enqueued on one stream of a device.
#pragma once

#include <c10/core/Stream.h>

#include <functional>
#include <vector>

#include "base/units.h"
#include "device/device.h"

namespace ferry {

class Stopwatch {
 public:
  using Work = std::function<void()>;
  static constexpr Micros kUnlimited{1e15};
  /// With something between works a round takes so many of one: a first to be ahead of, the pair
  /// that is timed, and as much that is enqueued beside it.
  static constexpr int kWorksPerRound = 5;

  /// What a work takes, or several that follow each other.
  struct Timing {
    Micros device;  // until the device has done it
    Micros again;   // right behind itself
    Micros cores;   // of host cores, right behind itself: what enqueues it and, if simulated,
                    // computes it
  };

  Stopwatch(Device& device, c10::Stream stream) : device_(device), stream_(stream) {}

  /// The time until the device has done `work` so often.
  Timing run(const Work& work, int repeats) const;

  /// The medians over a number of rounds in which every work has its turn: a bad moment of
  /// a shared machine meets one round of each, not most rounds of one. There are fewer rounds, one
  /// at least, where all together would take longer than `most`. `between`, if there is one, is
  /// done before every pair of a work and the same again, and not counted: it leaves caches as the
  /// first of them shall find them. The host is ahead of the device then, and enqueues as
  /// much again meanwhile, as training does.
  std::vector<Timing> time(const std::vector<Work>& works, Micros most = kUnlimited,
                           const Work& between = {}) const;

  /// One run, and what it allocates at most beside what is alive.
  struct Weighed {
    Timing timing;
    Bytes peak;
  };
  Weighed weigh(const Work& work) const;

 private:
  Timing run_after(const Work& between, const Work& work, int repeats) const;

  Device& device_;
  const c10::Stream stream_;
};

/// What a task costs beside its kernels: the time of one hop when tiny tasks of two streams wait
/// for each other in turn, as a copy and the computation that needs it do.
Micros hop_time(Device& device);

}  // namespace ferry
