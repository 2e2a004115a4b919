// Things that take long to make, kept for whoever needs one next.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace ferry {

/// For any threads.
template <typename Thing>
class Spares {
 public:
  /// The one that was given back last of those that `fits(thing)` is true of; null: of none.
  template <typename Fits>
  std::unique_ptr<Thing> take(Fits fits) {
    const std::lock_guard lock(using_);
    const auto found =
        std::ranges::find_if(spares_, [&](const auto& spare) { return fits(*spare); });
    if (found == spares_.end()) return nullptr;
    std::unique_ptr<Thing> thing = std::move(*found);
    spares_.erase(found);
    return thing;
  }

  /// Where there are many, the oldest goes.
  void give_back(std::unique_ptr<Thing> thing) {
    const std::lock_guard lock(using_);
    if (spares_.size() == kMost) spares_.pop_back();
    spares_.insert(spares_.begin(), std::move(thing));
  }

 private:
  static constexpr std::size_t kMost = 16;

  std::mutex using_;
  std::vector<std::unique_ptr<Thing>> spares_;  // what was given back last comes first
};

}  // namespace ferry
