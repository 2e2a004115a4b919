// An examination as a table for people, as JSON for programs, and as a commented machine file.
#pragma once

#include <string>

#include "cli/examination.h"

namespace ferry {

/// Findings and warnings in at most 100 columns.
std::string examination_table(const Examination& examination);

/// docs/formats/cli.md lists the fields.
std::string examination_json(const Examination& examination);

/// A machine file that reads back to the examination's machine; each figure's source stands in a
/// comment above it. Holds no date, so that equal boxes give equal files.
std::string examination_yaml(const Examination& examination);

}  // namespace ferry
