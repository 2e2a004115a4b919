// How fast copies between this box's host memory and its devices are.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/units.h"

namespace ferry {

/// Bytes per second, of all measured devices together.
struct CopyRates {
  double up = 0;    // host to devices
  double down = 0;  // devices to host
};

/// Large enough that a copy's start does not count.
inline constexpr Bytes kCopySize = 256_MiB;

/// Copies `size` bytes per device between device and page-locked host memory, on all of `devices`
/// ("cuda:0", "sim:1") at the same time, one direction after the other; the median of a few rounds.
/// With one device that is its link, with those of one root complex what they share. The host's
/// memory lies on the NUMA nodes of `nodes`, if any, as a run's does (spec/memory_nodes.h).
/// Simulated devices must be open. Requires: devices not empty, size > 0. Throws ResourceError when
/// memory is short or a device fails.
CopyRates measure_copies(std::span<const std::string> devices, Bytes size = kCopySize,
                         std::span<const int> nodes = {});

/// What one device copies straight to another.
struct PeerRate {
  int from = 0, to = 0;  // of the devices that were asked for
  bool allowed = true;   // by the driver; the rest is of no use where not
  bool whole = true;     // the bytes arrive as they were sent
  double rate = 0;       // bytes per second, while nothing else is copied
};

/// Of every two of `devices`, each way. Simulated devices must be open. Requires: size > 0. Throws
/// as measure_copies().
std::vector<PeerRate> measure_peers(std::span<const std::string> devices, Bytes size = 64_MiB);

}  // namespace ferry
