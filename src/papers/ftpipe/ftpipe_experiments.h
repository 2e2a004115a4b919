// A T5-like chain (FTPipe's show-case, USENIX ATC 2021) beside our planners: synchronous steps of
// contiguous and mixed placements, and balances of compute and memory. The figures are derived by
// hand, the paper prints none of them.
#pragma once

#include <vector>

#include "papers/published/paper_rows.h"

namespace ferry {

std::vector<PaperRow> ftpipe_experiments();

}  // namespace ferry
