#include "papers/paper_auto.h"

#include <cstdio>
#include <limits>
#include <map>
#include <utility>
#include <variant>

#include "base/check.h"
#include "papers/published/paper_models.h"
#include "plan/verify.h"
#include "planner/costs/estimate.h"
#include "spec/pass_names.h"

namespace ferry {
namespace {

constexpr const char* kSingles[] = {"mobius", "harmony-pp", "roundpipe", "fuyou", "zero"};

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kRounding = 1e-8;

std::string rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

std::string batch_of(const AutoCase& one) {
  return ", " + std::to_string(one.micro_batches) + " x " + std::to_string(one.micro_batch_size) +
         " x " + std::to_string(one.sequence);
}

// The step of `auto`; nothing was published.
PaperRow auto_row(const std::string& what, const AutoComparison& result) {
  PaperRow row = told_row(what + ": auto, s", result.step);
  row.remark = result.winner.empty()
                   ? "nothing fits"
                   : "by " + result.winner + ", bound " + rounded(result.lower_bound);
  for (const AutoComparison::Single& single : result.singles) {
    row.remark +=
        "; " + single.strategy + " " + (single.step ? rounded(*single.step) : single.lacks);
  }
  return row;
}

std::string lack_of(const Shortage& shortage) {
  return shortage.place + " lacks " + to_string(shortage.need - shortage.have);
}

}  // namespace

const std::vector<AutoCase>& auto_cases() {
  static const std::vector<AutoCase> cases = {
      // Mobius: GPU-only systems end at 3B, so there pipelines on the GPUs win; beyond, streaming.
      {"4x3090ti-4", "mobius-3b", 4},
      {"4x3090ti-4", "mobius-8b", 4},
      {"4x3090ti-2+2", "mobius-3b", 4},
      {"4x3090ti-2+2", "mobius-8b", 4},
      {"4x3090ti-2+2", "mobius-15b", 4, 1, 512, false},
      {"4x3090ti-1+3", "mobius-8b", 4},
      {"8x3090ti-4+4", "mobius-8b", 8},
      {"8x3090ti-4+4", "mobius-15b", 8, 1, 512, false},
      {"p3.8xlarge", "mobius-3b", 4},
      {"harmony-4x1080ti", "mobius-3b", 4},
      {"roundpipe-8x4090", "qwen3-1.7b", 8, 1, 2048},
      {"roundpipe-8x4090", "llama3.1-8b", 16, 1, 2048},
      {"roundpipe-8x4090", "qwen3-32b", 8, 1, 2048, false},
      {"ratel-4090-12drives-256gb", "ratel-13b", 4, 4, 1024},
      {"ratel-4x4090-12drives", "ratel-70b", 8, 4, 1024, false},
      {"ratel-4090-12drives-256gb", "ratel-175b", 8, 2, 1024, false},
  };
  return cases;
}

PlanQuestion auto_question(const AutoCase& one, const std::filesystem::path& machines) {
  PlanQuestion question;
  question.model = paper_model(one.model);
  question.machine = read_machine((machines / (one.machine + ".yaml")).string());
  question.micro_batches = one.micro_batches;
  question.micro_batch_size = one.micro_batch_size;
  question.sequence = one.sequence;
  question.precision = Precision::bf16;
  question.host_budget = question.machine.host.memory;
  question.host_budget_source = question.machine.source.text;
  question.profile = estimate_profile(question.model, question.machine, question.precision,
                                      {question.micro_batch_size, question.sequence});
  return question;
}

AnswerWithoutRemedies verified_answer(const PlanQuestion& question) {
  AnswerWithoutRemedies answer = answer_question(question);
  if (const auto* planned = std::get_if<Planned>(&answer)) {
    const std::optional<Violation> violation = verify(planned->plan);
    FERRY_CHECK(!violation, violation ? violation->message : std::string());
  }
  return answer;
}

AutoComparison compare_with_auto(const PlanQuestion& question) {
  AutoComparison result;
  const AnswerWithoutRemedies answer = verified_answer(question);
  if (const auto* planned = std::get_if<Planned>(&answer)) {
    result.winner = planned->candidates.front().strategy;
    result.step = planned->prediction.step.seconds();
    result.lower_bound = planned->lower_bound.seconds();
  }
  for (const char* strategy : kSingles) {
    PlanQuestion alone = question;
    alone.strategy = strategy;
    alone.options.without = pass_name::kHomes;  // as published: nothing rests on the GPUs
    const AnswerWithoutRemedies single = verified_answer(alone);
    if (const auto* planned = std::get_if<Planned>(&single)) {
      result.singles.push_back({strategy, planned->prediction.step.seconds(), {}});
    } else {
      result.singles.push_back({strategy, std::nullopt, lack_of(std::get<Shortage>(single))});
    }
  }
  return result;
}

std::vector<PaperRow> auto_experiments(const std::filesystem::path& machines, bool everything) {
  std::vector<PaperRow> rows;
  std::map<std::string, std::pair<double, std::string>> best;  // strategy -> ratio, case
  for (const AutoCase& one : auto_cases()) {
    if (!one.quick && !everything) continue;
    const std::string where = one.model + " on " + one.machine;
    const AutoComparison result = compare_with_auto(auto_question(one, machines));
    rows.push_back(auto_row(where + batch_of(one), result));
    for (const AutoComparison::Single& single : result.singles) {
      if (!single.step) continue;
      const double ratio = *single.step / result.step;
      rows.push_back(band_row(where + ": " + single.strategy + " / auto", ratio, 1, kInfinity));
      auto& [largest, at] = best[single.strategy];
      if (ratio > largest) {
        largest = ratio;
        at = where + ", by " + result.winner;
      }
    }
  }
  for (const char* strategy : {"mobius", "harmony-pp", "roundpipe", "fuyou"}) {
    const auto& [ratio, where] = best[strategy];
    rows.push_back(band_row(std::string("largest ") + strategy + " / auto", ratio, 1.2, kInfinity));
    rows.back().remark = where;
  }
  return rows_from(Provenance::promise, kRounding, std::move(rows));
}

}  // namespace ferry
