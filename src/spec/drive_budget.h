// What a job lets ferry take of drives: the values of `budget.drive`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/units.h"

namespace ferry {

struct DriveBudget {
  std::string path = {};  // a folder on it; empty: the machine's, or the job's `out`
  Bytes capacity = {};
  double read = 0;                      // bytes per second; 0: the machine's, or measured
  double write = 0;                     // likewise
  bool held = false;                    // the run takes no more than these rates
  std::optional<Bytes> endurance = {};  // that may be written in its life; none: the machine's

  bool operator==(const DriveBudget&) const = default;
};

using DriveBudgets = std::vector<DriveBudget>;

/// As a job file has them: "500 GiB", "{path: /nvme0/ferry, capacity: 1 TB}", or a list.
std::string drives_text(const DriveBudgets& budgets);

/// As many as a machine file may have.
inline constexpr int kMostDrives = 128;

}  // namespace ferry
