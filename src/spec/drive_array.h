// A machine's drives as one array: every stripe row lies on all of them, on each in its share, so
// that all are done at the same time and a slow drive does not set the pace.
#pragma once

#include <optional>
#include <vector>

#include "base/units.h"
#include "spec/machine.h"

namespace ferry {

/// Whether it is known what the drive reads and writes per second.
inline bool has_rates(const Drive& drive) { return drive.read.limited() && drive.write.limited(); }

/// Whether a plan may use drives: of some it is known what they do.
bool has_drives(const Machine& machine);

/// What the drives hold and do together.
struct DriveArray {
  int count = 0;  // drives that hold something; 0: none has known rates
  Bytes capacity;
  Rate read;
  Rate write;
  bool duplex = false;  // reads and writes do not share the drives' time
  double cores = 0;     // Drive::cores of all that it keeps busy
  /// That may be written until the first drive of which it is known has been worn out.
  std::optional<Bytes> endurance;
  /// Of every row, in the order of Machine::drives; they add up to 1 (all 0 where `count` is 0).
  std::vector<double> shares;
};

/// The fastest array that holds `need` bytes, or as much as the drives hold at most. A byte that is
/// read and written once (nearly what a step does) takes max(share / read) + max(share / write)
/// over the drives, on duplex ones the larger of the two: that is least, and so no drive makes the
/// array slower. The array's rates are what the shares give, its capacity the least
/// capacity / share. Drives without known rates have no share. Equal drives have equal shares.
/// An array of `array.capacity` bytes has the same shares as `array`, within rounding.
DriveArray drive_array(const Machine& machine, Bytes need = {});

/// The shares of that array: what of a row of a plan whose place is `need` bytes lies on which
/// drive.
std::vector<double> drive_shares(const Machine& machine, Bytes need = {});

}  // namespace ferry
