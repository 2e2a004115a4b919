// What a question's `plan.stages`, `plan.devices` and `plan.map` ask for, or a schedule's own way.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/costs/question.h"

namespace ferry {

/// One past the last block of each stage, from blocks per stage. Throws UserError that names `key`
/// unless they are positive and make up `blocks`.
std::vector<int> ends_of(const std::vector<int>& counts, int blocks, const std::string& key);

/// The root complex of each device, or none.
std::vector<std::optional<int>> roots_of(const Machine& machine);

/// The device of each stage: plan.devices, else by plan.map; the strategy's way is in turn. Throws
/// UserError when plan.devices does not name a device for every stage.
std::vector<int> asked_map(const PlanQuestion& question, int stages);

/// The device of each of N slots that stages take in turn: plan.devices (of slots, or of stages
/// that keep to slots), else by plan.map; the strategy's way is cross mapping. Throws UserError
/// when plan.devices is no such thing.
std::vector<int> asked_slots(const PlanQuestion& question, int stages);

}  // namespace ferry
