// Schedules for tests: any stages, any devices, any homes.
#pragma once

#include <random>
#include <vector>

#include "planner/write/stream_schedule.h"

namespace ferry {

/// Stages of one to three blocks, each on any one device, forward and backward, in one round of
/// micro-batches or in several; the last stage is now and then fused. Of a step that trains.
std::vector<StageVisit> random_visits(const Chain& chain, int devices, int micro_batches,
                                      std::mt19937& random);

/// Of blocks that each run on one device.
std::vector<BlockHome> random_homes(const Chain& chain, std::mt19937& random);

}  // namespace ferry
