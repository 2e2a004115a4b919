// A drive reached by pread and pwrite on threads: works everywhere.
#pragma once

#include <memory>

#include "store/io_engine.h"
#include "store/swap_file.h"

namespace ferry {

/// An engine with `threads` threads on the file; through the page cache where the file is not
/// direct: then what was written is sent to the drive before a write completes, so that its errors
/// show, and the cache keeps nothing. Throws ResourceError when the machine refuses a thread.
std::unique_ptr<IoEngine> make_thread_engine(const SwapFile& file, int threads);

}  // namespace ferry
