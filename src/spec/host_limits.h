// How much of this box is ours: what affinity, cgroups (v1 and v2) and other programs leave.
#pragma once

#include <filesystem>
#include <string>

#include "base/units.h"

namespace ferry {

struct HostLimits {
  int cores = 1;
  Bytes memory;  // that can be taken now without swapping or being killed
  // What holds them back: "affinity", "free memory", or a cgroup's file ("/sys/fs/cgroup/cpu.max").
  std::string cores_limit = "affinity";
  std::string memory_limit = "free memory";
};

/// Reads ROOT/proc and ROOT/sys/fs/cgroup; `root` is "/" except in tests. Of the limits of a cgroup
/// and its parents the tightest holds. A quota of a part of a core counts down, one core at least.
/// Requires: cores >= 1, what affinity allows. Throws ResourceError without ROOT/proc/meminfo.
HostLimits host_limits(const std::filesystem::path& root, int cores);

/// The cores this process may run on.
int cores_by_affinity();

/// The box itself, whatever of it is ours.
struct HostTotals {
  int cores = 1;    // online
  Bytes memory;     // DRAM
  Bytes cache;      // last-level caches of all cores together; 0: unknown
  double load = 0;  // programs that ran or waited for a core in the last minute, on average
};

/// Reads ROOT/proc and ROOT/sys/devices/system/cpu; what is not there stays at its default.
HostTotals host_totals(const std::filesystem::path& root);

/// As the kernel calls the first core's processor; "unknown processor" where it does not tell.
std::string processor_name(const std::filesystem::path& root);

}  // namespace ferry
