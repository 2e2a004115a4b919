// The stages and the map that a question asks for, or a schedule's own: what pure programs start
// from.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/orders/pipeline.h"
#include "planner/partition/evaluator.h"
#include "planner/planner.h"

namespace ferry {

/// One past the last block of each stage, from blocks per stage. Throws UserError that names `key`
/// unless they are positive and make up `blocks`.
std::vector<int> ends_of(const std::vector<int>& counts, int blocks, const std::string& key);

/// plan.stages, or the most even cut of the profile's chain into `stages` (as many as blocks at
/// most).
std::vector<int> asked_ends(const PlanQuestion& question, int stages);

/// The root complex of each device, or none.
std::vector<std::optional<int>> roots_of(const Machine& machine);

/// The device of each stage: plan.devices, else by plan.map; the strategy's way is in turn. Throws
/// UserError when plan.devices does not name a device for every stage.
std::vector<int> asked_map(const PlanQuestion& question, int stages);

/// The device of each of N slots that stages take in turn: plan.devices (of slots, or of stages
/// that keep to slots), else by plan.map; the strategy's way is cross mapping. Throws UserError
/// when plan.devices is no such thing.
std::vector<int> asked_slots(const PlanQuestion& question, int stages);

/// Figures "traffic_up_bytes" and "traffic_down_bytes" of activations and their gradients that pass
/// between stages on different devices through the host, for one step.
void add_boundary_traffic(PlanReport& report, const std::vector<StageCosts>& stages,
                          const std::vector<int>& device, int micro_batches);

/// The stages as a report lists them.
std::vector<StageReport> stage_reports(const Machine& machine, const std::vector<int>& ends,
                                       const std::vector<int>& device);

}  // namespace ferry
