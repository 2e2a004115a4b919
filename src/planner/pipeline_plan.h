// Writes the plan of a pipeline: stages that stay on their devices, weights, optimizer states and
// gradient sums at home there, and boundary activations and their gradients that cross the host.
//
// The writer knows no schedule: it is given the order in which stages run. gpipe, 1f1b, interleaved
// and mixed-pipe differ in nothing else.
#pragma once

#include <vector>

#include "plan/plan.h"
#include "planner/chain.h"
#include "planner/pipeline.h"
#include "planner/planner.h"

namespace ferry {

struct PipelineShape {
  std::vector<int> ends;             // one past each stage's last block
  std::vector<int> device_of_stage;  // any device may have any number of stages
  /// Every stage forward and backward once per micro-batch, backward in ascending order of
  /// micro-batches per stage: an order that is right when its runs follow one another.
  std::vector<PipelineTask> order;
  /// Activation slots per device beyond those in use at once: how far copies run ahead.
  int spare_slots = 0;
};

/// The plan, with all edges, whether or not it fits. An evaluation takes the order's forward runs;
/// weights and states are at the same offsets of the same devices in both modes.
Plan write_pipeline_plan(const PlanQuestion& question, const Chain& chain,
                         const PipelineShape& shape, const std::string& strategy);

}  // namespace ferry
