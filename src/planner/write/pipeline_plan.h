// Writes the plan of a pipeline: stages that stay on their devices, weights, optimizer states and
// gradient sums at home there, and boundary activations and their gradients that cross the host.
//
// The writer knows no schedule: it is given the order in which stages run. gpipe, 1f1b, interleaved
// and mixed-pipe differ in nothing else.
#pragma once

#include <string>

#include "plan/plan.h"
#include "planner/costs/chain.h"
#include "planner/costs/question.h"
#include "planner/write/pipeline_schedule.h"

namespace ferry {

/// The plan, with all edges, whether or not it fits. An evaluation takes the order's forward runs;
/// weights and states are at the same offsets of the same devices in both modes.
Plan write_pipeline_plan(const PlanQuestion& question, const Chain& chain,
                         const PipelineSchedule& schedule, const std::string& strategy);

}  // namespace ferry
