// What a copy between DRAM and drives moves.
#pragma once

#include "base/units.h"

namespace ferry {

/// Whole pages, of which an instance fills the last one in part. Both its slots begin on a page,
/// and no other slot begins in what is left of the last (rule 3 of plan/verify.h).
inline constexpr Bytes kDrivePage{4096};

}  // namespace ferry
