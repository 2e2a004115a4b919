#include "device/memory_share.h"

#include <algorithm>
#include <utility>

namespace ferry {

MemoryShare::MemoryShare(Device device, Bytes held)
    : device_(std::move(device)), held_(held), peak_(held.count) {}

void MemoryShare::count(const std::function<void()>& work) {
  device_.reset_peak();
  const Bytes before = device_.memory_use().live;
  work();
  const Device::MemoryUse use = device_.memory_use();
  peak_ = std::max(peak_.load(), (held_ + use.peak - before).count);
  held_ += use.live - before;
}

}  // namespace ferry
