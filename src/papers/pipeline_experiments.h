// Closed forms of pipelines, and RoundPipe's printed bubbles and makespans, beside schedules that
// are run task by task: rows for `ferry papers`. Nothing is fitted per row. Sources: sections 12,
// 13 and 18 of the Mobius and RoundPipe page; section 9.1 of the FTPipe page.
#pragma once

#include <vector>

#include "papers/published/paper_rows.h"

namespace ferry {

/// GPipe, 1F1B and interleaved: shares of time without compute.
std::vector<PaperRow> pipeline_experiments();

/// Makespans, and bubbles with and without a flush, as shares of time.
std::vector<PaperRow> roundpipe_experiments();

}  // namespace ferry
