// The process that outlives training: where the kernel's memory killer ends the trainer, which can
// then say nothing itself, this one does.
#pragma once

#include <filesystem>

namespace ferry {

/// Runs `program` with these arguments as a child, passes the signals on that ask it to stop, and
/// returns the exit code that the program should end with: the child's own; 130 when such a signal
/// ended it; 3 when the kernel's memory killer did, which is then said on standard error with what
/// the child held and could take; 128 + N for another signal N. The child dies with this process.
///
/// `root` is "/" except in tests: where proc and sys are read. Requires: no other threads or
/// children. Throws ResourceError when there is no second process to be had.
int watch_over(const std::filesystem::path& program, char** arguments,
               const std::filesystem::path& root);

}  // namespace ferry
