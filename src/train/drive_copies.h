// One resource's copies between DRAM and drives: several under way at once, ended in order.
//
// A plan's resource runs its tasks one after another, and others rely on that. Here a copy begins
// while those before it are under way unless they touch the same bytes, and counts as done only
// when they are done too, which nobody can tell apart.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>

#include "device/simulation.h"
#include "train/host_queue.h"
#include "train/places.h"

namespace ferry {

/// One thread, but for the drives' own, which end copies.
class DriveCopies {
 public:
  /// Ends go to `completions`, which, as `binding`, must outlive the queue and every copy under
  /// way. `name`: the resource's, for the hazard detector.
  DriveCopies(const std::string& name, const Binding& binding, Completions& completions,
              std::function<Micros()> now);

  /// False while enough is under way, or something that touches what the copy touches.
  bool can_start(const Task& copy) const;

  /// Begins the copy and returns at once. Requires: can_start(copy), and what the copy waits for is
  /// done.
  void start(TaskRun run, const Task& copy);

  /// Takes note of a completion of one of its copies.
  void note(const HostCompletion& completion);

  /// The completion of the oldest copy that was not taken yet, once it is done.
  std::optional<HostCompletion> take();

  /// Copies that were started and of which no completion was noted.
  int running() const;

  /// Drops the completions that were not taken. Requires: running() == 0.
  void forget();

  /// Orders what is started from now on, for the hazard detector, after what `seen` tells of.
  void wait_for(const HazardClock& seen) const { actor_.join(seen); }
  /// What the copies started so far will have done.
  HazardClock clock() const { return actor_.clock(); }

 private:
  struct Copy {
    TaskRun run;
    Binding::Transfer transfer;
    std::optional<HostCompletion> completion;
  };

  const Binding& binding_;
  Completions& completions_;
  const std::function<Micros()> now_;
  const SimActor actor_;
  std::deque<Copy> under_way_;  // in the order of starting
};

}  // namespace ferry
