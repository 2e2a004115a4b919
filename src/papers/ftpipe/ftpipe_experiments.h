// The T5-like fixture of the FTPipe page beside our planners: synchronous steps of contiguous and
// mixed placements (section 12.2), and balances of compute and memory (section 1).
#pragma once

#include <vector>

#include "papers/published/paper_rows.h"

namespace ferry {

std::vector<PaperRow> ftpipe_experiments();

}  // namespace ferry
