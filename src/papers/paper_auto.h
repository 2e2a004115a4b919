// ferry's own plans on the papers' machines: the simulated step of `auto` beside that of each of
// the papers' strategies alone, all as plans that can train (not pure programs), on estimated
// profiles.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "papers/published/paper_rows.h"
#include "planner/answer.h"
#include "planner/planner.h"

namespace ferry {

/// A job on a machine of the library.
struct AutoCase {
  std::string machine;  // file stem: "4x3090ti-2+2"
  std::string model;    // of paper_models()
  int micro_batches = 1;
  int micro_batch_size = 1;
  int sequence = 512;  // tokens
  bool quick = true;   // planned in a few seconds
};

/// Those of the table, in its order.
const std::vector<AutoCase>& auto_cases();

/// The job as a question of strategy `auto`; bf16, all of the machine's memory.
PlanQuestion auto_question(const AutoCase& one, const std::filesystem::path& machines);

/// What the planner answers, a plan verified; without remedies. Requires: the question has a
/// profile.
AnswerWithoutRemedies verified_answer(const PlanQuestion& question);

struct AutoComparison {
  struct Single {
    std::string strategy;
    std::optional<double> step;  // seconds; none: does not fit
    std::string lacks;           // then: which place
  };
  std::string winner;      // the strategy that `auto` took; empty: nothing fits
  double step = 0;         // seconds, of `auto`
  double lower_bound = 0;  // seconds
  std::vector<Single> singles;
};

/// `auto`, and mobius, harmony-pp, roundpipe, fuyou and zero, each asked for alone.
AutoComparison compare_with_auto(const PlanQuestion& question);

/// Per case the step of `auto` and, for every strategy, its step over that of `auto`, which is at
/// least 1; then, for mobius, harmony-pp, roundpipe and fuyou, the largest of these, which is at
/// least 1.2. `everything`: also the cases that are not quick.
std::vector<PaperRow> auto_experiments(const std::filesystem::path& machines, bool everything);

}  // namespace ferry
