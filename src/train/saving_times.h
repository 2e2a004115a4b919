// When a run saves: after every so many steps, after so much time, and again where a save has
// failed, be it the last one.
#pragma once

#include <chrono>
#include <optional>

namespace ferry {

class SavingTimes {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Seconds = std::chrono::duration<double>;

  /// After a save that failed the next try waits so long, and twice as long each time, up to
  /// kLongestWait.
  static constexpr Seconds kFirstWait{1}, kLongestWait{600};

  /// Of a run that has ended likewise, up to kLongestWaitAtEnd, and no longer than kPatience in
  /// all.
  static constexpr Seconds kLongestWaitAtEnd{30}, kPatience{600};

  struct Rules {
    int every_steps = 0;       // 0: not by steps
    double every_minutes = 0;  // 0: not by time
  };

  /// `saved`: the steps done in what rests on the drive at `now`.
  SavingTimes(Rules rules, int saved, Time now);

  /// Whether the state after `done` steps is to be saved now.
  bool is_due(int done, Time now) const;

  /// Whether a state after `done` steps is newer than what rests on the drive.
  bool is_unsaved(int done) const { return done > saved_; }

  void succeeded(int done, Time now);

  /// Returns how long the next try waits.
  Seconds failed(Time now);

  /// Of a run that has ended: nothing where there is no next try.
  std::optional<Seconds> failed_at_end(Time now);

 private:
  const Rules rules_;
  int saved_;
  Time last_;                          // when it was saved
  Seconds wait_{0};                    // 0: the last save did not fail
  Time retry_;                         // when it did: not before
  std::optional<Time> failed_at_end_;  // for the first time
};

}  // namespace ferry
