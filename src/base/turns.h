// Who is served next where one is served at a time, and goes on while it has more.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

namespace ferry {

/// As a GPU's copy engine serves its streams (docs/gpu.md): it stays with the queue that it served
/// last, also when that had nothing for a while, else it takes the one that has waited longest.
template <typename Queue>
class Turns {
 public:
  /// The queue has something that may begin. Requires: it neither waits nor is served.
  void arrive(Queue queue) { waiting_.push_back(queue); }

  /// Whose turn it is from now on; nobody's while another is served, or nobody waits.
  std::optional<Queue> begin() {
    if (served_ || waiting_.empty()) return std::nullopt;
    auto next = std::ranges::find(waiting_, last_);
    if (next == waiting_.end()) next = waiting_.begin();
    last_ = *next;
    served_ = true;
    waiting_.erase(next);
    return last_;
  }

  /// Who was served is done.
  void end() { served_ = false; }

 private:
  std::vector<Queue> waiting_;  // in the order of arrival
  Queue last_{};                // an id of nobody: nobody was served yet
  bool served_ = false;
};

}  // namespace ferry
