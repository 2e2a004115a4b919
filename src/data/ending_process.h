// Processes that end, as the kernel tells of them in /proc.
#pragma once

#include <sys/types.h>

namespace ferry {

/// Whether the process has been killed or exits: it does nothing more, but keeps its locks until
/// its memory is freed, which takes seconds where that is many GiB. False where there is no such
/// process, or nothing is told of it.
bool is_ending(pid_t process);

}  // namespace ferry
