// What the command line shows of plans and steps, as text in 100 columns and as JSON.
#pragma once

#include <string>

#include "planner/planner.h"
#include "train/trainer.h"

namespace ferry {

/// One row per kind of value, one column per place, and the predicted step.
std::string plan_table(const PlanQuestion& question, const Planned& planned);

/// The answer for programs; docs/formats/cli.md lists its fields.
std::string plan_json(const PlanQuestion& question, const Planned& planned);
std::string does_not_fit_json(const DoesNotFit& answer);

/// "does not fit: gpu0 needs 96.0 MiB, has 64.0 MiB (budget.device, job.yaml:9)" and the remedies.
std::string does_not_fit_text(const DoesNotFit& answer);

/// One aligned line.
std::string step_line(const StepReport& report);

/// Predicted against measured: step time, peak bytes per place.
std::string summary_table(const TrainSummary& summary, Micros predicted_step);

}  // namespace ferry
