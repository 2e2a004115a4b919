// How fast this box's CPU optimizer is.
#pragma once

#include <cstdint>

#include "spec/precision.h"

namespace ferry {

/// Parameters per second of AdamW on `threads` threads with states of the precision's kind, the
/// median of a few steps over `parameters` of them: 16 bytes each, so that the default is beyond
/// most caches. Requires: parameters > 0, threads > 0. Throws ResourceError without the threads.
double measure_update_rate(Precision precision, int threads, std::int64_t parameters = 4 << 20);

}  // namespace ferry
