// Random questions of sizes that people train: 7B to 70B on one to eight GPUs, with and without
// drives.
#pragma once

#include <cstdint>

#include "base/units.h"
#include "planner/costs/question.h"

namespace ferry {

/// Equal seeds give equal questions. Devices have 24 GiB. Without the search of single blocks,
/// which takes most of the time that planning does.
PlanQuestion realistic_question(std::uint64_t seed);

/// The question with so much memory on every device, and its estimated times.
PlanQuestion with_device_memory(PlanQuestion question, Bytes each);

}  // namespace ferry
