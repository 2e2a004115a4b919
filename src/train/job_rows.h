// Which samples of its token files a job trains and evaluates on, and in which rows.
#pragma once

#include <cstdint>

#include "data/batches.h"
#include "data/tokens.h"
#include "spec/job.h"

namespace ferry {

/// All samples of the training file but its last `held_out`.
BatchRules training_rows(const Job& job, const TokenFile& file, std::int64_t held_out);

/// The last `held_out` samples of the training file, or all of a file to evaluate on.
BatchRules evaluation_rows(const Job& job, const TokenFile& file, std::int64_t held_out);

/// A pass over the data that is trained on.
struct EpochFigures {
  std::int64_t rows = 0;     // samples, or packed rows
  std::int64_t tokens = 0;   // positions that are not padding
  std::int64_t learned = 0;  // positions whose prediction is learned
  std::int64_t cut = 0;      // samples longer than a row, whose tail is never seen
};

EpochFigures epoch_figures(const Batches& batches);

}  // namespace ferry
