// A profile for a machine on which nothing was measured: rooflines from the machine file and the
// model's shape, with assumptions where the file is silent (docs/planner.md lists them).
#pragma once

#include <cstdint>

#include "base/units.h"
#include "planner/costs/question.h"
#include "spec/machine.h"
#include "spec/model_spec.h"
#include "spec/precision.h"
#include "spec/profile.h"

namespace ferry {

/// Estimates times for the slowest device of `machine`, and workspaces from above.
Profile estimate_profile(const ModelSpec& model, const Machine& machine, Precision precision,
                         BatchShape shape);

/// The question, with an estimated profile when it has none.
PlanQuestion with_estimated_profile(const PlanQuestion& question);

/// The question with another batch shape, as it would be asked: an estimated profile is estimated
/// anew, a measured one is scaled by the ratio of estimates, entry by entry, so that what does not
/// grow with the batch does not grow here either.
PlanQuestion with_batch(const PlanQuestion& question, int micro_batches, int micro_batch_size,
                        int sequence);

/// Parameters per second when neither profile nor machine says: bound by memory bandwidth.
double estimated_update_rate(const Host& host, Precision gradients);

/// The optimizer on the first device, for `elements` parameters.
Micros device_update_time(const PlanQuestion& question, std::int64_t elements);

}  // namespace ferry
