// Closed forms of pipelines, and RoundPipe's printed bubbles and makespans, beside schedules that
// are run task by task: rows for `ferry papers`. Nothing is fitted. Sources: GPipe (2019),
// Megatron-LM (2021), RoundPipe (2026) sections 3.3 and 4.4 and its simulated bubbles.
#pragma once

#include <vector>

#include "papers/published/paper_rows.h"

namespace ferry {

/// GPipe, 1F1B and interleaved: shares of time without compute.
std::vector<PaperRow> pipeline_experiments();

/// Makespans, and bubbles with and without a flush, as shares of time.
std::vector<PaperRow> roundpipe_experiments();

}  // namespace ferry
