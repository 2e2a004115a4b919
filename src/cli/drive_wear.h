// What a plan reads from and writes to the drives, and how long they last at that.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "plan/plan.h"
#include "spec/machine.h"

namespace ferry {

/// Of a step, all drives together; the life is that of the drive which is used up first.
struct DriveWear {
  std::string name;  // the plan's place: "drives", or the only drive's name
  Bytes read;
  Bytes written;
  std::optional<Bytes> endurance;        // that they may be written; none: unknown of every drive
  std::optional<double> life_steps;      // none: unknown, or nothing is written
  std::optional<double> life_positions;  // of these steps, padding included; none for a paper's
                                         // program, too, which need not know a step's batch
};

/// Nothing where the plan has no drives.
std::optional<DriveWear> drive_wear(const Machine& machine, const Plan& plan);

/// "drives: 12.3 GiB read, 10.1 GiB written per step; rated for 118000 such steps, 1.9e+09
/// positions", with a line end.
std::string wear_line(const DriveWear& wear);

/// What to say before a run of `steps` that writes more than a hundredth of what the drives are
/// rated for; empty for any other.
std::string wear_warning(const DriveWear& wear, std::int64_t steps);

/// "on the drives rest, of 99 blocks: weights of 3, optimizer states of 40, activations of 7", with
/// a line end; empty where nothing does.
std::string drive_homes_line(const Plan& plan);

}  // namespace ferry
