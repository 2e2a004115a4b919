// Equal slots that are taken, held for as long as their value is needed, and given back.
#pragma once

#include <cstddef>
#include <deque>

#include "base/units.h"

namespace ferry {

/// Grows as far as its use asks for: to the most slots held at once, and `spare` more. A slot rests
/// until `spare` others were given back after it, so that the copy that fills it next need not wait
/// for its last reader.
class SlotPool {
 public:
  SlotPool(Bytes first, Bytes slot, int spare);

  /// The offset of the slot that has rested longest, or of a new one.
  Bytes take();

  /// Requires: taken and not given back since.
  void give_back(Bytes offset);

  /// One past the last slot so far.
  Bytes end() const { return end_; }

 private:
  Bytes slot_;
  std::size_t spare_;
  Bytes end_;
  std::deque<Bytes> resting_;  // in the order in which they were given back
};

}  // namespace ferry
