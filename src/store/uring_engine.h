// A drive reached by io_uring: as fast as threads for a fraction of their processor time.
#pragma once

#include <memory>

#include "store/io_engine.h"
#include "store/swap_file.h"

namespace ferry {

/// An engine with a ring for `in_flight` requests on a direct file. Throws ResourceError, "what was
/// tried: reason", where the kernel or a container refuses one, and in a build without liburing.
std::unique_ptr<IoEngine> make_uring_engine(const SwapFile& file, int in_flight);

}  // namespace ferry
