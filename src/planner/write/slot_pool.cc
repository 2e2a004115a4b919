#include "planner/write/slot_pool.h"

namespace ferry {

SlotPool::SlotPool(Bytes first, Bytes slot, int spare) : slot_(slot), spare_(spare), end_(first) {}

Bytes SlotPool::take() {
  if (resting_.size() <= spare_) {
    const Bytes fresh = end_;
    end_ += slot_;
    return fresh;
  }
  const Bytes rested = resting_.front();
  resting_.pop_front();
  return rested;
}

void SlotPool::give_back(Bytes offset) { resting_.push_back(offset); }

}  // namespace ferry
