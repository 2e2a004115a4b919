// Copies that take the time their links need, in real time.
//
// Running copies share links and root complexes by fair_speeds() (base/fair_share.h), the function
// the simulator uses in virtual time. Knows nothing of torch.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <vector>

#include "base/fair_share.h"
#include "base/units.h"

namespace ferry {

/// What a copy needs of the links it passes.
struct Route {
  std::vector<Draw> draws;  // bytes/s taken from each pool at full speed
  double rate = 0;          // bytes/s of a copy that is alone; 0 = immediate
  Micros latency;           // before the first byte; draws on nothing
};

/// The links of one simulated machine. All calls are safe from any thread.
class SharedLinks {
 public:
  /// `capacities`: bytes/s of each pool.
  explicit SharedLinks(std::vector<double> capacities);

  using Clock = std::chrono::steady_clock;

  /// Runs `move` and returns when it has returned and `size` bytes have had their share of the
  /// route's time, whichever is later. Copies with one rate share a pool equally; in general, by
  /// bytes per second. Passes on what `move` throws. Requires: draws name pools of this machine.
  /// `ready`: when the copy could start; absent: now. A calling thread that woke up late loses
  /// nothing: what the link would have moved since then counts as moved, at the speed that the copy
  /// has now. Those it shares the link with are not slowed for it.
  /// Returns when the copy ended, which may be a little before the call returns.
  Clock::time_point carry(const Route& route, Bytes size, const std::function<void()>& move,
                          std::optional<Clock::time_point> ready = {});

 private:
  struct Transfer {
    const Route* route;
    double left;       // bytes
    double speed = 0;  // bytes/s, until somebody starts or ends
    double end = 0;    // when nothing was left, in seconds since origin_
  };

  double now() const;  // seconds since origin_
  void catch_up(Transfer& transfer, double start);
  void advance();  // brings `left` of every transfer up to now
  void share();    // sets every `speed` anew
  double seconds_to_next_end() const;

  const std::vector<double> capacities_;
  const Clock::time_point origin_;

  std::mutex mutex_;                 // guards everything below
  std::condition_variable changed_;  // speeds were set anew
  std::list<Transfer> running_;      // those with bytes left draw on the pools
  double settled_ = 0;               // the time up to which `left` is right
};

}  // namespace ferry
