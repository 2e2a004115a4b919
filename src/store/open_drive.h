// Which way to a drive is taken: found out by writing and reading back.
#pragma once

#include "store/io_engine.h"
#include "store/swap_file.h"

namespace ferry {

/// The ways to a drive. `best` takes the first that works; the others throw when theirs does not.
enum class IoChoice {
  best,
  io_uring,         // with direct I/O
  threads,          // pread and pwrite on threads, past the page cache where the file system allows
  threads_buffered  // through the page cache
};

/// Makes the engine of a file, for `in_flight` requests at once, and tries it on the file's first
/// bytes. On the thread that will use it. Throws ResourceError naming folder and reason.
OpenedDrive open_drive(SwapFile& file, IoChoice choice, int in_flight);

}  // namespace ferry
