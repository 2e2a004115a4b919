// What the command line shows of a run.
#pragma once

#include <string>

#include "train/trainer.h"

namespace ferry {

/// One aligned line.
std::string step_line(const StepReport& report);

/// Predicted against measured: step time, peak bytes per place.
std::string summary_table(const TrainSummary& summary, Micros predicted_step);

}  // namespace ferry
