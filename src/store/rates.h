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

/// Bytes per second of large sequential transfers that bypass the page cache, while the drive reads
/// and writes: most drives lose something by that, and a step does both nearly all the time. What
/// computing threads lose beside it is more than this process's own time where a hypervisor moves
/// the bytes.
struct DriveRates {
  double read = 0;
  double write = 0;
  double cores = 0;     // that computing threads lose while the drive moves at these rates
  bool duplex = false;  // it reads and writes at these rates at once; else they share its time
};

/// The rates of a drive that takes so many seconds to read `bytes`, to write as many, and to read
/// half of them while it writes the other half. Where that is nearer (by its ratio) to what the
/// slower half takes alone than to what the halves take one after the other, reads and writes
/// hardly slow each other: a duplex drive. Else they share its time. Where the halves take longer
/// at once than that, both rates are lower by it.
DriveRates rates_at_once(Bytes bytes, double reading, double writing, double both);

/// Writes `size` bytes, rounded up to whole blocks, into a DriveSpace in `folder`, then writes and
/// reads them again and does half of either at once, up to three times in a few seconds. The rates
/// are those of the medians (rates_at_once). Then `threads`
/// compute, now beside the drive and now alone. Nothing is left of it however the program ends.
/// Returns nothing when the file system refuses O_DIRECT: then what would be measured is DRAM.
/// Requires: size > 0, threads > 0. Throws UserError when there is no such folder, ResourceError
/// when space or permission is lacking, or the drive fails or returns other bytes.
std::optional<DriveRates> measure_drive(const std::filesystem::path& folder, Bytes size,
                                        int threads);

}  // namespace ferry
