#include "store/arena.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"

namespace ferry {

Lease::Lease(Lease&& other) noexcept
    : arena_(std::exchange(other.arena_, nullptr)), bytes_(std::exchange(other.bytes_, {})) {}

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this == &other) return *this;
  if (arena_ != nullptr) arena_->give_back(bytes_);
  arena_ = std::exchange(other.arena_, nullptr);
  bytes_ = std::exchange(other.bytes_, {});
  return *this;
}

Lease::~Lease() {
  if (arena_ != nullptr) arena_->give_back(bytes_);
}

Arena::Arena(Bytes budget)
    : budget_{budget.count / kAlignment.count * kAlignment.count}, memory_(budget_) {
  if (budget_ > 0_B) free_.emplace(0_B, budget_);
}

Arena::~Arena() {
  FERRY_CHECK(in_use_ == 0_B, "a lease of " + to_string(in_use_) + " outlived its arena");
}

std::optional<Lease> Arena::lease(Bytes size) {
  FERRY_CHECK(size > 0_B, "a lease needs a size");
  if (size > budget_) return std::nullopt;  // also keeps round_up from overflowing
  const Bytes taken = round_up(size, kAlignment);
  const std::lock_guard lock(mutex_);
  const auto region = std::find_if(free_.begin(), free_.end(),
                                   [&](const auto& entry) { return entry.second >= taken; });
  if (region == free_.end()) return std::nullopt;
  const auto [offset, length] = *region;
  free_.erase(region);
  if (length > taken) free_.emplace(offset + taken, length - taken);
  in_use_ += taken;
  peak_ = std::max(peak_, in_use_);
  return Lease(*this, memory_.bytes().subspan(static_cast<std::size_t>(offset.count),
                                              static_cast<std::size_t>(size.count)));
}

void Arena::give_back(std::span<std::byte> region) {
  Bytes offset{region.data() - memory_.bytes().data()};
  Bytes length = round_up({static_cast<std::int64_t>(region.size())}, kAlignment);
  const std::lock_guard lock(mutex_);
  in_use_ -= length;
  const auto after = free_.lower_bound(offset);
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == offset) {
      offset = before->first;
      length += before->second;
      free_.erase(before);
    }
  }
  if (after != free_.end() && after->first == offset + length) {
    length += after->second;
    free_.erase(after);
  }
  free_.emplace(offset, length);
}

Bytes Arena::in_use() const {
  const std::lock_guard lock(mutex_);
  return in_use_;
}

Bytes Arena::peak() const {
  const std::lock_guard lock(mutex_);
  return peak_;
}

}  // namespace ferry
