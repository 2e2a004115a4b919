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
    rows.push_back(value_row("Fig " + row.figure + ", " + row.name + ", s per step", row.ours,
                             row.published, row.allowed_error));
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
                 mobius_rows},
      PaperTable{"harmony", "Harmony's estimator's seconds per step", harmony_rows, true},
      PaperTable{"ratel", "Ratel's measured seconds per step", ratel_rows},
      PaperTable{"roundpipe", "RoundPipe's makespans and bubbles", roundpipe_rows},
      PaperTable{"pipelines", "GPipe, 1F1B and interleaved, closed forms", pipeline_rows},
      PaperTable{"ftpipe", "FTPipe's T5-like model on eight GPUs", ftpipe_rows},
      PaperTable{"bounds", "lower bounds on Ratel's server, and `auto` beside what was measured",
                 bounds_rows},
      PaperTable{"auto", "ferry's `auto` beside single strategies on the same machines", auto_rows},
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
