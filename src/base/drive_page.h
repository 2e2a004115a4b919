// What drives move: pages.
#pragma once

#include "base/units.h"

namespace ferry {

/// Offsets, lengths and addresses of direct I/O are multiples of it. So a copy between DRAM and
/// drives moves whole pages, of which an instance fills the last one in part. Both its slots begin
/// on a page, and no other slot begins in what is left of the last (rule 3 of plan/verify.h).
inline constexpr Bytes kDrivePage = 4_KiB;

}  // namespace ferry
