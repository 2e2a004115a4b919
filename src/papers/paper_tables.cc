#include "papers/paper_tables.h"

#include <array>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "papers/bounds_experiments.h"
#include "papers/ftpipe/ftpipe_experiments.h"
#include "papers/harmony/harmony_experiments.h"
#include "papers/mobius/mobius_experiments.h"
#include "papers/paper_auto.h"
#include "papers/pipeline_experiments.h"
#include "papers/ratel/fuyou_experiments.h"
#include "spec/nearest.h"

namespace ferry {
namespace {

constexpr double kRatelAllowed = 0.15;
constexpr double kWithin = 0.10;  // Ratel's figures beyond this say why

void append(std::vector<PaperRow>& rows, std::vector<PaperRow> more) {
  for (PaperRow& row : more) rows.push_back(std::move(row));
}

std::vector<PaperRow> mobius_rows(const PaperSources& sources) {
  std::vector<Machine> servers;
  for (const char* name : {"4x3090ti-4", "4x3090ti-2+2", "4x3090ti-1+3", "8x3090ti-4+4"}) {
    servers.push_back(read_machine((sources.machines / (std::string(name) + ".yaml")).string()));
  }
  std::vector<PaperRow> rows = mobius_traffic_experiments();
  append(rows, mobius_partition_experiments(servers[1]));
  append(rows, mobius_experiments(servers));
  return rows;
}

std::vector<PaperRow> harmony_rows(const PaperSources& sources) {
  FERRY_CHECK(sources.harmony.has_value(), "a folder for the harmony table");
  return harmony_experiments(*sources.harmony);
}

// One joint fit of five constants for all figures stands behind these, so single rows stay off.
std::string ratel_remark(const FuyouExperimentRow& row) {
  if (std::abs(row.error()) <= kWithin) return "";
  if (row.figure == "7b" && row.name.find("b=8") != std::string::npos) {
    return "the fitted constants make 175B's states take longer than b=8 was measured to take in "
           "all";
  }
  if (row.figure.front() == '7') return "ablations scale one optimizer time with the parameters";
  if (row.figure == "9a") return "the policy's own engine is not modelled, only what it swaps";
  if (row.figure == "11" || row.figure == "13") {
    return "several GPUs: one constant per model for what they wait for each other";
  }
  return "constants are one fit over all figures, not of this row";
}

std::vector<PaperRow> ratel_rows(const PaperSources&) {
  std::vector<PaperRow> rows;
  for (const FuyouExperimentRow& row : fuyou_experiments()) {
    const std::string input = row.is_input ? " (sets the wait)" : "";
    rows.push_back(value_row("Fig " + row.figure + ", " + row.name + input + ", s per step",
                             row.ours, row.published));
    rows.back().allowed = kRatelAllowed;
    rows.back().provenance = row.provenance;
    rows.back().is_input = row.is_input;
    rows.back().remark = ratel_remark(row);
  }
  return rows;
}

std::vector<PaperRow> roundpipe_rows(const PaperSources&) { return roundpipe_experiments(); }
std::vector<PaperRow> pipeline_rows(const PaperSources&) { return pipeline_experiments(); }
std::vector<PaperRow> ftpipe_rows(const PaperSources&) { return ftpipe_experiments(); }

std::vector<PaperRow> bounds_rows(const PaperSources& sources) {
  return bounds_experiments(sources.machines, sources.everything);
}

std::vector<PaperRow> auto_rows(const PaperSources& sources) {
  return auto_experiments(sources.machines, sources.everything);
}

}  // namespace

std::span<const PaperTable> paper_tables() {
  static constexpr std::array kTables = {
      PaperTable{"mobius", "Mobius against ZeRO-3: bytes, step time, links, partition",
                 "nothing is fitted; models and batch are ours", mobius_rows},
      PaperTable{"harmony", "Harmony's estimator's seconds per step", "nothing is fitted",
                 harmony_rows, true},
      PaperTable{"ratel", "Ratel's measured seconds per step",
                 "nine constants are one fit over the rows with one GPU (on a 3090 two of them "
                 "anew); what several GPUs wait for each other is a constant per model: of 13B and "
                 "70B from the row that says so, which is not scored, of 30B over its five rows",
                 ratel_rows},
      PaperTable{"roundpipe", "RoundPipe's makespans and bubbles",
                 "nothing is fitted; chains of layers are ours", roundpipe_rows},
      PaperTable{"pipelines", "GPipe, 1F1B and interleaved, closed forms", "nothing is fitted",
                 pipeline_rows},
      PaperTable{"ftpipe", "FTPipe's T5-like model on eight GPUs", "nothing is fitted",
                 ftpipe_rows},
      PaperTable{"bounds", "lower bounds on Ratel's server, and `auto` beside what was measured",
                 "nothing is fitted", bounds_rows},
      PaperTable{"auto", "ferry's `auto` beside single strategies on the same machines",
                 "nothing is fitted, and nothing was published", auto_rows},
  };
  return kTables;
}

const PaperTable& paper_table(const std::string& name) {
  std::vector<std::string> names;
  std::string all;
  for (const PaperTable& table : paper_tables()) {
    if (table.name == name) return table;
    names.push_back(table.name);
    all += std::string(" ") + table.name;
  }
  const std::string meant = nearest(name, names);
  throw UserError("unknown table '" + name + "'; " +
                  (meant.empty() ? "expected one of" + all : "did you mean '" + meant + "'?"));
}

std::vector<PaperRow> rows_of(const PaperTable& table, const PaperSources& sources) {
  std::vector<PaperRow> rows = table.rows(sources);
  for (PaperRow& row : rows) row.table = table.name;
  return rows;
}

}  // namespace ferry
