// Which of a block's elements each value of its optimizer state has: all, or those of its piece.
#pragma once

#include <cstdint>

#include "plan/plan.h"

namespace ferry {

/// Neighbouring elements of a block, by its layout (spec/layout.h).
struct ElementRange {
  std::int64_t first = 0;
  std::int64_t count = 0;

  std::int64_t end() const { return first + count; }
};

/// What both have; of no element where they have none.
ElementRange common(const ElementRange& a, const ElementRange& b);

/// Where the moments begin in S.b, or in a piece of it: behind the low halves, if there are any.
struct MomentOffsets {
  Bytes exp_avg, exp_avg_sq;
};

MomentOffsets moment_offsets(std::int64_t elements, Precision precision);

/// By value, of S.b its elements; of others none. Requires: a plan that verify() has seen.
IdVector<ValueId, ElementRange> state_elements(const Plan& plan);

}  // namespace ferry
