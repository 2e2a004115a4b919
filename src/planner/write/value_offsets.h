// Where values of a place lie, found without a search: plans are written thousands of times.
#pragma once

#include <optional>

#include "plan/plan.h"

namespace ferry {

class ValueOffsets {
 public:
  /// The value's, or nothing.
  std::optional<Bytes> find(ValueId value) const {
    return offsets_.has(value) ? offsets_[value] : std::nullopt;
  }

  void set(ValueId value, Bytes offset) {
    if (!offsets_.has(value)) offsets_.resize(value.index() + 1);
    offsets_[value] = offset;
  }

  void erase(ValueId value) { offsets_[value].reset(); }

 private:
  IdVector<ValueId, std::optional<Bytes>> offsets_;
};

}  // namespace ferry
