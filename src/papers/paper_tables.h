// The tables of `ferry papers`: every published figure that ferry reproduces, by name of the table.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "papers/published/paper_rows.h"

namespace ferry {

/// Where tables find what they need.
struct PaperSources {
  std::filesystem::path machines;                // the machine library
  std::optional<std::filesystem::path> harmony;  // Harmony's published profiles and expected.json
  bool everything = false;                       // also rows that take long: asked for by name
};

struct PaperTable {
  const char* name;
  const char* about;   // one line
  const char* fitted;  // what was fitted to the rows, in a sentence
  std::vector<PaperRow> (*rows)(const PaperSources&);
  bool needs_harmony = false;
};

/// In the order in which they are shown.
std::span<const PaperTable> paper_tables();

/// The table of that name. Throws UserError that suggests the nearest.
const PaperTable& paper_table(const std::string& name);

/// Its rows, each with the table's name, all with one allowance. Throws UserError for files that
/// are not as they should be.
std::vector<PaperRow> rows_of(const PaperTable& table, const PaperSources& sources);

}  // namespace ferry
