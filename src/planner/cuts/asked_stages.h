// What a question's `plan.stages`, `plan.devices` and `plan.map` ask for, or a schedule's own way.
// Everything here throws JobKeyError where they do not go with the question.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/costs/question.h"

namespace ferry {

/// One past the last block of each stage, from the blocks per stage that `key` gives: at least one
/// each, together `blocks`.
std::vector<int> ends_of(const std::vector<int>& counts, int blocks, const std::string& key);

/// Those of plan.stages; nothing when it is not given.
std::optional<std::vector<int>> asked_ends(const PlanQuestion& question, int blocks);

/// The root complex of each device, or none.
std::vector<std::optional<int>> roots_of(const Machine& machine);

/// Devices of the machine, in the order in which stages take them: plan.devices, else all.
std::vector<int> asked_devices(const PlanQuestion& question);

/// The device of each stage: asked_devices() in turn, or as plan.map says.
std::vector<int> asked_map(const PlanQuestion& question, int stages);

/// The device of each stage that stages of cross-mapped slots have.
std::vector<int> cross_map(const PlanQuestion& question, int stages);

/// The device of each of N slots that stages take in turn: plan.devices (of slots, or of stages
/// that keep to slots), else by plan.map; the strategy's way is cross mapping.
std::vector<int> asked_slots(const PlanQuestion& question, int stages);

}  // namespace ferry
