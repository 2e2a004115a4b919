// The simulated steps as a page for a browser: docs/formats/timeline.md.
#pragma once

#include <string>

#include "exec/simulator.h"
#include "plan/plan.h"

namespace ferry {

/// One self-contained HTML page: a timeline per resource, bytes per place over time, what waits for
/// what, utilisation and the bandwidth of transfers. Opens without a network. Times are rounded to
/// a nanosecond. About 100 bytes per task. Requires: `simulation` is of `plan`.
std::string to_html(const Plan& plan, const Simulation& simulation);

}  // namespace ferry
