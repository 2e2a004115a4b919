// Device memory in steps that no question's budget moves.
#pragma once

#include <vector>

#include "base/units.h"

namespace ferry {

/// A size of device memory at which a search tries what fits.
struct MemoryRung {
  Bytes memory;
  bool is_landing = false;  // where it tries everything; elsewhere, neighbours of its best
};

/// `least`, then m * 2^e with `per_doubling` values of m, as far as the first that is at least
/// `most`. The rungs up to a size are the same whatever `most` is. Landings are `least` and
/// 3 * 2^e. Requires: 0 < least; per_doubling is a power of two, at least 2.
std::vector<MemoryRung> memory_rungs(Bytes least, Bytes most, int per_doubling);

}  // namespace ferry
