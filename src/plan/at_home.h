// What rests at a place from step to step, beside what only passes through it.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "base/ids.h"
#include "plan/plan.h"

namespace ferry {

/// By instance, whether it rests where it is. Weights and states at home do. So do a copy of
/// weights that arrives once per step and a gradient sum, rounded or not, where no other instance
/// has a byte of their slot: the copy is there for every visit of its block, the sum until its
/// update.
IdVector<InstanceId, bool> at_home(const Plan& plan);

/// The bytes of those at each place. A part of what bytes_by_purpose() (plan/purposes.h) counts as
/// weights, optimizer state and gradients.
IdVector<PlaceId, Bytes> bytes_at_home(const Plan& plan);

/// Where every value that outlasts a step has its home: place and offset there, by value_name().
std::map<std::string, std::pair<PlaceId, Bytes>> homes_of(const Plan& plan);

}  // namespace ferry
