// A training run as a page for a browser: docs/formats/run.md.
#pragma once

#include <string>

#include "report/run_history.h"

namespace ferry {

/// One self-contained HTML page: losses, learning rate, gradient norm, tokens/s and stalls over
/// steps, predicted against measured, versions and hardware. Opens without a network.
std::string to_html(const RunHistory& history);

}  // namespace ferry
