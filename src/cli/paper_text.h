// What `ferry papers` answers, as text in 100 columns and as JSON.
#pragma once

#include <string>
#include <vector>

#include "papers/paper_tables.h"

namespace ferry {

/// A table with its heading: what, ours, published, where that comes from, error. Remarks that are
/// the same in consecutive rows stand once, below the last of them.
std::string paper_text(const PaperTable& table, const std::vector<PaperRow>& rows);

/// How many scored rows hold, and those that do not.
std::string paper_summary(const std::vector<PaperRow>& rows);

/// A list of rows; docs/formats/cli.md lists their fields.
std::string paper_json(const std::vector<PaperRow>& rows);

}  // namespace ferry
