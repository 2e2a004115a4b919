// What this box's memory and drives really do, measured with plain streams. For machine files.
#pragma once

#include <filesystem>
#include <optional>

#include "base/units.h"

namespace ferry {

/// Bytes per second that `threads` threads read and write together in DRAM: the median of a few
/// passes of a[i] += s * b[i] over two arrays of `memory` in all. Unlike STREAM's triad nothing is
/// written that was not read, so that the bytes counted (two read, one written) are the bytes
/// moved. Requires: threads > 0, memory > 0; several times the caches, or it is their rate that is
/// measured. Throws ResourceError when the machine refuses the memory.
double dram_bandwidth(Bytes memory, int threads);

/// Bytes per second of large sequential transfers that bypass the page cache.
struct DriveRates {
  double read = 0;
  double write = 0;
};

/// Writes `size` bytes, rounded up to whole blocks, into a DriveSpace in `folder`, then writes and
/// reads them again in turns as training does, up to three times in a few seconds; medians. Nothing
/// is left of it however the program ends. Returns nothing when the file system refuses O_DIRECT:
/// then what would be measured is DRAM. Requires: size > 0.
/// Throws UserError when there is no such folder, ResourceError when space or permission is
/// lacking, or the drive fails or returns other bytes.
std::optional<DriveRates> measure_drive(const std::filesystem::path& folder, Bytes size);

}  // namespace ferry
