// The drives that a job's `budget.drive` leaves of a machine's, or adds where it has none.
#pragma once

#include <string>

#include "spec/job.h"
#include "spec/machine.h"

namespace ferry {

/// Changes `machine.drives` as `budget.drive` says; nothing without that key.
///
/// A machine without drives (this box is one) gets those of the key. Of a machine with drives those
/// stay that the key names, by their path or, where the machine knows none, in its order; one size
/// alone limits each of them. Capacities become the lesser of both.
///
/// Rates that neither gives stay 0, "not known": the caller measures them. Throws UserError when
/// the key and the machine do not belong together.
void take_drive_budgets(const Job& job, Machine& machine);

/// Where that limit comes from, for messages: "budget.drive, job.yaml:9"; empty without the key.
std::string drive_budget_source(const Job& job);

}  // namespace ferry
