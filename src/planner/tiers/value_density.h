// Which memory holds what, when drives hold the rest: what saves most drive time per byte goes
// first into the device's spare memory, then into DRAM.
//
// hi16 is read twice and written once per step, so a byte of it saves 2/r + 1/w seconds on drives
// that read at r and write at w; lo16, m and v save 1/r + 1/w; an activation no more than that,
// and less where it is cheap to compute again. So hi16 comes first, then whole states, shallow
// layers first since their updates have the earliest deadlines, then activations.
#pragma once

#include <optional>
#include <vector>

#include "base/units.h"
#include "plan/plan.h"

namespace ferry {

/// One block as the pass sees it; a size of 0: it has none.
struct BlockDemand {
  Bytes hi;              // hi16, the compute weights
  Bytes states;          // lo16, m, v
  Bytes activation;      // that would leave the GPU in forward and come back in backward
  double recompute = 0;  // seconds to compute the activation again; infinity: it cannot be
};

struct TierQuestion {
  Bytes device_spare;    // beside what a running step needs
  Bytes host;            // likewise
  double read_rate = 0;  // of all drives together, bytes per second; reads and writes share time
  double write_rate = 0;
  bool forward_writes_free = false;  // drives are idle in forward: an activation's way out costs 0
  std::vector<BlockDemand> blocks;   // shallow first
};

struct BlockPlacement {
  PlaceKind hi = PlaceKind::device;
  PlaceKind states = PlaceKind::device;
  std::optional<PlaceKind> activation = PlaceKind::device;  // nothing: it is computed again
};

struct TierPlacement {
  std::vector<BlockPlacement> blocks;
  Bytes device_used;
  Bytes host_used;
  Bytes drive_used;          // the caller compares it with the drives' capacity
  Bytes drive_read;          // per step
  Bytes drive_written;       // per step
  double seconds = 0;        // per step: the drives' time and the recomputation
  double seconds_bound = 0;  // no placement of whole or split blocks takes less
};

/// Places every item, in the order of the rule, where it fits: device, host, drive; an activation
/// that fits in neither memory is computed again where that is faster than the drives.
///
/// Guaranteed: more host memory never raises `seconds`, `drive_read` or `drive_written`; when what
/// fits ends with an item boundary the placement is optimal; with one memory it is within the
/// value of the first item that did not fit of the optimum over all placements of whole items.
/// Requires: positive rates.
TierPlacement place_by_value(const TierQuestion& question);

}  // namespace ferry
