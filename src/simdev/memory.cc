#include "simdev/memory.h"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <tuple>

#include "base/check.h"

namespace ferry {

bool DeviceMemory::Unused::operator<(const Unused& other) const {
  return std::tie(block.stream, block.capacity, age) <
         std::tie(other.block.stream, other.block.capacity, other.age);
}

DeviceMemory::~DeviceMemory() {
  for (const Unused& unused : unused_) release(unused.block);
}

DeviceMemory::Allocation DeviceMemory::allocate(Bytes size, std::int64_t stream) {
  FERRY_CHECK(size >= 0_B, "an allocation of a negative size");
  const Bytes need = round_up(std::max(size, 1_B), kAlignment);
  const std::lock_guard lock(mutex_);
  if (need > cap_ - in_use_) return {};

  Allocation result;
  result.fits = true;
  MemoryBlock& block = result.block;
  const auto found = unused_.lower_bound({{nullptr, {}, need, stream, false}, 0});
  if (found != unused_.end() && found->block.stream == stream &&
      found->block.capacity.count <= need.count + need.count / 4) {
    block = found->block;
    block.fresh = false;
    unused_capacity_ -= block.capacity;
    unused_.erase(found);
  } else {
    void* data = std::aligned_alloc(static_cast<std::size_t>(kAlignment.count),
                                    static_cast<std::size_t>(need.count));
    if (data == nullptr) throw std::bad_alloc();
    block = {static_cast<std::byte*>(data), need, need, stream, true};
  }
  block.size = need;
  in_use_ += need;
  peak_ = std::max(peak_, in_use_);
  result.surplus = trim();
  return result;
}

std::vector<MemoryBlock> DeviceMemory::give_back(const MemoryBlock& block) {
  const std::lock_guard lock(mutex_);
  in_use_ -= block.size;
  unused_capacity_ += block.capacity;
  unused_.insert({block, next_age_++});
  return trim();
}

std::vector<MemoryBlock> DeviceMemory::take_unused() {
  const std::lock_guard lock(mutex_);
  std::vector<MemoryBlock> blocks;
  for (const Unused& unused : unused_) blocks.push_back(unused.block);
  unused_.clear();
  unused_capacity_ = {};
  return blocks;
}

void DeviceMemory::release(const MemoryBlock& block) { std::free(block.data); }

Bytes DeviceMemory::in_use() const {
  const std::lock_guard lock(mutex_);
  return in_use_;
}

Bytes DeviceMemory::peak() const {
  const std::lock_guard lock(mutex_);
  return peak_;
}

Bytes DeviceMemory::unused() const {
  const std::lock_guard lock(mutex_);
  return unused_capacity_;
}

void DeviceMemory::reset_peak() {
  const std::lock_guard lock(mutex_);
  peak_ = in_use_;
}

std::vector<MemoryBlock> DeviceMemory::trim() {
  std::vector<MemoryBlock> surplus;
  const Bytes most = std::min(cap_, std::max(cap_ - in_use_, kMostBeyondCap));
  while (unused_capacity_ > most) {
    const auto oldest =
        std::min_element(unused_.begin(), unused_.end(),
                         [](const Unused& a, const Unused& b) { return a.age < b.age; });
    unused_capacity_ -= oldest->block.capacity;
    surplus.push_back(oldest->block);
    unused_.erase(oldest);
  }
  return surplus;
}

}  // namespace ferry
