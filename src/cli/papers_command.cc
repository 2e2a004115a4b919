#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/installation.h"
#include "cli/paper_text.h"
#include "papers/paper_tables.h"

namespace ferry {
namespace {

constexpr const char* kLeftOut =
    "Cases that take long to plan are left out; `ferry papers bounds auto` has them.\n";

// Said in place of Harmony's table where nobody says where its profiles are.
constexpr const char* kNoHarmony =
    "harmony: skipped; --harmony DIR gives a folder with its profiles (bert96.json, ...) and\n"
    "  expected.json: docs/formats/cli.md\n\n";

std::vector<const PaperTable*> asked_tables(const PapersCommand& command) {
  std::vector<const PaperTable*> result;
  for (const std::string& name : command.tables) {
    const PaperTable& table = paper_table(name);
    if (table.needs_harmony && command.harmony.empty()) {
      throw UserError("table '" + name + "' needs --harmony DIR, a folder with Harmony's profiles");
    }
    result.push_back(&table);
  }
  if (!command.tables.empty()) return result;
  for (const PaperTable& table : paper_tables()) result.push_back(&table);
  return result;
}

}  // namespace

int run_papers(const PapersCommand& command) {
  PaperSources sources;
  sources.machines = machines_folder();
  if (!command.harmony.empty()) sources.harmony = command.harmony;
  sources.everything = !command.tables.empty();
  std::vector<PaperRow> all;
  for (const PaperTable* table : asked_tables(command)) {
    if (table->needs_harmony && !sources.harmony) {
      std::fputs(kNoHarmony, command.json ? stderr : stdout);
      continue;
    }
    const std::vector<PaperRow> rows = rows_of(*table, sources);
    if (!command.json) {
      std::fputs(paper_text(*table, rows).c_str(), stdout);
      std::fflush(stdout);  // the next table may take a while
    }
    all.insert(all.end(), rows.begin(), rows.end());
  }
  std::fputs((command.json ? paper_json(all) : paper_summary(all)).c_str(), stdout);
  if (!sources.everything && !command.json) std::fputs(kLeftOut, stdout);
  return kDone;
}

}  // namespace ferry
