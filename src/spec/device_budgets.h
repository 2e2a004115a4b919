// How much of each device's memory a job lets ferry take.
#pragma once

#include <string>
#include <vector>

#include "base/units.h"
#include "spec/job.h"
#include "spec/machine.h"

namespace ferry {

/// The most that ferry takes of a place, and where that limit comes from, for messages:
/// "budget.device, job.yaml:9".
struct Budget {
  Bytes bytes;
  std::string source;
};

/// One for each device of the machine, never beyond its memory. Throws UserError when budget.device
/// is not of these devices.
std::vector<Budget> device_budgets(const Job& job, const Machine& machine);

}  // namespace ferry
