#include "papers/bounds_experiments.h"

#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <variant>

#include "papers/paper_auto.h"

namespace ferry {
namespace {

constexpr int kSequence = 1024;
constexpr std::int64_t kUsedDram = 256'000'000'000;
constexpr std::int64_t kWholeDram = 768'000'000'000;
constexpr double kAllowed = 1e-9;  // beside printed digits

struct Case {
  const char* name;
  const char* model;
  double parameters, hidden, layers;
  int micro_batches, micro_batch_size, drives;
  double bound;             // seconds, as tabulated
  double measured;          // seconds, Ratel's
  bool quick = true;        // planned in a few seconds
  bool whole_dram = false;  // also with all 768 GB, as measured
};

constexpr Case kCases[] = {
    {"13B b=8", "ratel-13b", 13e9, 5120, 40, 2, 4, 12, 5.3, 19.9},
    {"13B b=16", "ratel-13b", 13e9, 5120, 40, 4, 4, 12, 10.6, 20.2},
    {"13B b=32", "ratel-13b", 13e9, 5120, 40, 8, 4, 12, 21.3, 23.8},
    {"13B b=64", "ratel-13b", 13e9, 5120, 40, 16, 4, 12, 42.6, 43.7},
    {"70B b=32", "ratel-70b", 70e9, 8192, 80, 8, 4, 12, 115, 124},
    {"135B b=24", "ratel-135b", 135e9, 11264, 88, 6, 4, 3, 218, 379, true, true},
    {"175B b=8", "ratel-175b", 175e9, 12288, 96, 4, 2, 12, 72, 218, false},
    {"175B b=16", "ratel-175b", 175e9, 12288, 96, 8, 2, 12, 143, 264, false},
};

std::string name_of(const Case& one) {
  return std::string(one.name) + ", " + std::to_string(one.drives) + " drives";
}

std::string rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

TieredBound bound_of(const Case& one, double parameters) {
  return tiered_lower_bound(ratel_bound(parameters, one.hidden, one.layers,
                                        one.micro_batches * one.micro_batch_size, one.drives));
}

// Ratios are to the bound of the model's true size: "70B" has 64.8 billion parameters.
PaperRow auto_row(const Case& one, std::int64_t dram, const std::filesystem::path& machines) {
  const std::string machine = "ratel-4090-" + std::to_string(one.drives) + "drives";
  PlanQuestion question = auto_question(
      {machine, one.model, one.micro_batches, one.micro_batch_size, kSequence}, machines);
  question.host_budget = Bytes{dram};
  question.clips = false;  // as Ratel
  const std::string what =
      name_of(one) + ", " + std::to_string(dram / 1'000'000'000) + " GB: auto, s per step";
  const AnswerWithoutRemedies answer = verified_answer(question);
  if (const auto* lacking = std::get_if<Shortage>(&answer)) {
    PaperRow row = told_row(what, 0);
    row.remark = "does not fit " + lacking->place;
    return row;
  }
  const auto& planned = std::get<Planned>(answer);
  const double step = planned.prediction.step.seconds();
  PaperRow row = band_row(what, step, -std::numeric_limits<double>::infinity(), one.measured);
  row.remark = "by " + planned.candidates.front().strategy + ", " +
               std::to_string(one.micro_batches) + " x " + std::to_string(one.micro_batch_size) +
               "; published: Ratel, measured, of which this is " +
               rounded(100 * step / one.measured) + " %";
  if (dram == kUsedDram) {
    const double bound = bound_of(one, static_cast<double>(parameters(question.model))).seconds();
    row.remark +=
        "; times the bound: " + rounded(step / bound) + ", Ratel " + rounded(one.measured / bound);
  }
  if (step > one.measured) row.remark += "; Ratel had 768 GB";
  return row;
}

}  // namespace

TieredProblem ratel_bound(double parameters, double hidden, double layers, int batch, int drives) {
  TieredProblem problem;
  problem.parameters = parameters;
  problem.flops = 160e12;
  problem.up_rate = problem.down_rate = 21e9;
  problem.read_rate = 6.5e9 * drives;
  problem.write_rate = 3.4e9 * drives;
  problem.dram_rate = 250e9;
  problem.tokens = static_cast<double>(kSequence) * batch;
  problem.swapped = 2 * problem.tokens * hidden * layers;
  const CacheShares shares = cache_shares(parameters, 236e9 - problem.swapped);
  problem.traffic = state_traffic(shares.hi, shares.states);
  return problem;
}

std::vector<PaperRow> bounds_experiments(const std::filesystem::path& machines, bool everything) {
  std::vector<PaperRow> rows;
  for (const Case& one : kCases) {
    const TieredBound bound = bound_of(one, one.parameters);
    rows.push_back(printed_row(name_of(one) + ", 256 GB: lower bound, s per step", bound.seconds(),
                               one.bound, one.bound < 50 ? 0.1 : 1));
    rows.back().provenance = Provenance::derived;
    rows.back().remark = "bound by " + bound.binding();
    if (!one.quick && !everything) continue;
    rows.push_back(auto_row(one, kUsedDram, machines));
    if (one.whole_dram) rows.push_back(auto_row(one, kWholeDram, machines));
  }
  for (PaperRow& row : rows) row.allowed = kAllowed;
  return rows;
}

}  // namespace ferry
