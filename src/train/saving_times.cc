#include "train/saving_times.h"

#include <algorithm>

namespace ferry {

SavingTimes::SavingTimes(Rules rules, int saved, Time now)
    : rules_(rules), saved_(saved), last_(now) {}

bool SavingTimes::is_due(int done, Time now) const {
  if (!is_unsaved(done)) return false;
  if (wait_ > Seconds(0)) return now >= retry_;
  if (rules_.every_steps > 0 && done % rules_.every_steps == 0) return true;
  return rules_.every_minutes > 0 && now - last_ >= Seconds(rules_.every_minutes * 60);
}

void SavingTimes::succeeded(int done, Time now) {
  saved_ = done;
  last_ = now;
  wait_ = Seconds(0);
}

SavingTimes::Seconds SavingTimes::failed(Time now) {
  wait_ = std::clamp(2 * wait_, kFirstWait, kLongestWait);
  retry_ = now + std::chrono::duration_cast<Time::duration>(wait_);
  return wait_;
}

std::optional<SavingTimes::Seconds> SavingTimes::failed_at_end(Time now) {
  if (!failed_at_end_) {
    failed_at_end_ = now;
    wait_ = Seconds(0);
  }
  if (now - *failed_at_end_ >= kPatience) return std::nullopt;
  wait_ = std::clamp(2 * wait_, kFirstWait, kLongestWaitAtEnd);
  return wait_;
}

}  // namespace ferry
