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

/// On one device: every block forward and backward in a visit of its own, with all micro-batches.
StreamSchedule one_by_one(const Chain& chain, int micro_batches);

/// Of blocks that each run on one device.
std::vector<BlockHome> random_homes(const Chain& chain, std::mt19937& random);

/// The plan with slots in DRAM that are shared wherever they can be, however much there is.
Plan write_as_in_short_dram(const PlanQuestion& question, const Chain& chain,
                            const StreamSchedule& schedule);

}  // namespace ferry
