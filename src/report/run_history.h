// What a training run has logged, step by step: for tables and pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"

namespace ferry {

struct RunStep {
  int step = 0;  // counted from 1
  double loss = 0;
  double lr = 0;
  double grad_norm = 0;
  std::int64_t tokens = 0;   // positions that are not padding
  std::int64_t learned = 0;  // positions whose prediction is learned
  double seconds = 0;
  double tokens_per_second = 0;
  double stall = 0;  // 0 to 1
  std::map<std::string, Bytes> peak_bytes;
};

struct RunEvaluation {
  int step = 0;
  double loss = 0;
};

/// A row of predicted against measured.
struct RunComparison {
  std::string what, predicted, measured;
  std::optional<double> ratio;
};

struct RunHistory {
  std::string name;  // of the run, for its title
  std::vector<RunStep> steps;
  std::vector<RunEvaluation> evaluations;
  std::vector<RunComparison> comparison;                   // empty: the run goes on
  std::vector<std::pair<std::string, std::string>> facts;  // versions, hardware, results
  std::string timeline;  // the plan's page, as a link from this one; empty: none
};

/// A line of column names, then one per step: step, loss, eval_loss (empty but behind an
/// evaluation), lr, grad_norm, tokens, learned_tokens, step_seconds, tokens_per_second, stall and
/// peak_bytes_PLACE.
std::string to_csv(const RunHistory& history);

/// At most `count` steps for drawing: groups of neighbours are one, with the mean of everything but
/// the norm, whose largest counts, and the number of the last. Requires: count > 0.
std::vector<RunStep> drawn_steps(const std::vector<RunStep>& steps, std::size_t count);

}  // namespace ferry
