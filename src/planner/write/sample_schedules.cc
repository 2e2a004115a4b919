#include "planner/write/sample_schedules.h"

#include <algorithm>
#include <cstddef>

#include "planner/write/stream_plan.h"

namespace ferry {

std::vector<StageVisit> random_visits(const Chain& chain, int devices, int micro_batches,
                                      std::mt19937& random) {
  const auto pick = [&](int count) { return static_cast<int>(random() % count); };
  std::vector<StageVisit> stages;
  const int blocks = static_cast<int>(chain.size());
  while (stages.empty() || stages.back().end < blocks) {
    const int first = stages.empty() ? 0 : stages.back().end;
    const int end = std::min(blocks, first + 1 + pick(3));
    stages.push_back({Direction::forward, pick(devices), first, end, 0, 0});
  }
  std::vector<StageVisit> visits;
  const int round = 1 + pick(micro_batches);
  const bool fuses = pick(2) == 0;
  for (int m = 0; m < micro_batches; m += round) {
    const auto add = [&](StageVisit visit, Direction direction) {
      visit.direction = direction;
      visit.first_batch = m;
      visit.end_batch = std::min(micro_batches, m + round);
      visits.push_back(visit);
    };
    const std::size_t last = stages.size() - 1;
    for (std::size_t s = 0; s < last; ++s) add(stages[s], Direction::forward);
    if (!fuses) add(stages[last], Direction::forward);
    add(stages[last], fuses ? Direction::fused : Direction::backward);
    for (std::size_t s = last; s-- > 0;) add(stages[s], Direction::backward);
  }
  return visits;
}

std::vector<BlockHome> random_homes(const Chain& chain, std::mt19937& random) {
  std::vector<BlockHome> homes(chain.size());
  for (BlockHome& home : homes) {
    home.on_device = random() % 3 == 0;
    home.weight_stays = random() % 2 == 0;
    home.sum_waits = random() % 3 == 0;
    home.input_stays = random() % 3 == 0;
    home.renews_at_once = home.weight_stays && random() % 2 == 0;
  }
  for (BlockHome& home : homes) {
    const bool may = !home.on_device && !home.sum_waits;
    home.sum_waits_in_dram = may && random() % 3 == 0;
  }
  const BlockId tied = chain.blocks.back().reads_weight;
  if (tied.valid() && !homes.back().on_device) homes.back().sum_waits = false;
  return homes;
}

StreamSchedule one_by_one(const Chain& chain, int micro_batches) {
  StreamSchedule schedule;
  schedule.strategy = "mobius";
  const int blocks = static_cast<int>(chain.size());
  for (int b = 0; b < blocks; ++b) {
    schedule.visits.push_back({Direction::forward, 0, b, b + 1, 0, micro_batches});
  }
  for (int b = blocks; b-- > 0;) {
    schedule.visits.push_back({Direction::backward, 0, b, b + 1, 0, micro_batches});
  }
  return schedule;
}

Plan write_as_in_short_dram(const PlanQuestion& question, const Chain& chain,
                            const StreamSchedule& schedule) {
  PlanQuestion with_none = question;
  with_none.host_budget = {};
  Plan plan = write_stream_plan(with_none, chain, schedule);
  for (Place& place : plan.places) {
    if (place.kind == PlaceKind::host) place.budget = question.host_budget;
  }
  return plan;
}

}  // namespace ferry
