// A timeline as Chrome trace JSON (docs/formats/timeline.md).
#pragma once

#include <string>

#include "exec/timeline.h"
#include "plan/plan.h"

namespace ferry {

/// One track per resource and flows along `after`. Opens in Perfetto and chrome://tracing.
std::string to_chrome_trace(const Plan& plan, const Timeline& timeline);

}  // namespace ferry
