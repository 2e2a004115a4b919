// The threads among which CPU kernels divide their work.
#pragma once

namespace ferry {

/// Ends those that kernels of the calling thread have used; its next kernel that wants several
/// starts new ones. OpenMP keeps a team for every thread that ever had one, and where all of them
/// are more than cores, GNU's lets threads sleep at every barrier at once, and waking up takes 10
/// us and more: so a thread that is done with kernels for a while gives its team back. Does nothing
/// where torch's OpenMP is older than 5.0. Must not be called by a kernel.
void release_kernel_team();

/// From now on the calling thread, and those that its kernels start, do not interrupt a thread that
/// runs when they wake up: they wait for their turn.
void wake_behind_others();

}  // namespace ferry
