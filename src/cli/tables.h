// What the command line shows of a run.
#pragma once

#include <string>

#include "train/job_rows.h"
#include "train/trainer.h"

namespace ferry {

/// One aligned line.
std::string step_line(const StepReport& report);

/// What is trained on what, before anything is taken: model, data, steps, and the checkpoints, each
/// of which takes `checkpoint`. Requires: train.steps is set.
std::string start_table(const TrainSetup& setup, const EpochFigures& epoch, Bytes checkpoint);

/// Predicted against measured: step time, peak bytes per place; then what was trained in which
/// time.
std::string summary_table(const TrainSummary& summary, Micros predicted_step);

}  // namespace ferry
