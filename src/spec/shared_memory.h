// How much of this box plans may take. Simulated devices have no memory of their own: theirs is the
// host's, and so is what the program itself takes, so all of it counts against one limit.
#pragma once

#include <string>

#include "base/units.h"
#include "spec/host_limits.h"
#include "spec/machine.h"

namespace ferry {

/// What the host and all simulated devices may take together, and where that limit comes from.
struct SharedMemory {
  Bytes bytes;
  std::string source;  // for messages: "this machine: 600.0 MiB (/sys/fs/cgroup/memory.max) less
                       // 258.0 MiB that ferry itself takes"

  bool operator==(const SharedMemory&) const = default;
};

/// What loading and saving hold of DRAM at most beside the plan, however large a tensor is.
inline constexpr Bytes kPieceMemory = 16_MiB;

/// What a run takes beside its plan: pieces, and what kernels keep for themselves (measured, torch
/// 2.13 on two cores: 4 to 22 MiB).
inline constexpr Bytes kBesidePlan = kPieceMemory + 48_MiB;

/// What each simulated device keeps of freed memory beyond its cap.
inline constexpr Bytes kReuseOfDevice = 32_MiB;

/// What the program takes before a run (measured likewise): torch's heap, 57 to 63 MiB, and the
/// pages of its libraries that are in use, 73 MiB.
inline constexpr Bytes kProgramMemory = 144_MiB;

/// What plans may take of this box with so many simulated devices. `held` is what the process holds
/// already. A 32nd stays free: in a control group page tables and the kernel's own pages count too,
/// and outside of one other programs live.
SharedMemory shared_memory(const HostLimits& limits, Bytes held, int simulated);

/// The same of a machine file. Requires: machine.host.shared.
SharedMemory shared_memory(const Machine& machine);

/// What a run takes of this box: its plans' need in DRAM, by place for messages ("gpu0 8.0 MiB,
/// host 300.0 MiB"), and on how many simulated devices.
struct MemoryNeed {
  Bytes bytes;
  std::string by_place;
  int simulated = 0;
};

/// Throws ResourceError when less than that is left. For a process in which torch is loaded
/// already.
void require_free_memory(const HostLimits& limits, const MemoryNeed& need);

}  // namespace ferry
