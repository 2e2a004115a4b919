#include "papers/timing/program_stages.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "papers/timing/block_costs.h"
#include "planner/cuts/asked_stages.h"
#include "planner/cuts/contiguous.h"

namespace ferry {

std::vector<int> asked_or_even_ends(const PlanQuestion& question, int stages) {
  const std::vector<BlockCosts> blocks = profile_costs(question.profile);
  const int count = static_cast<int>(blocks.size());
  if (auto asked = asked_ends(question, count)) return std::move(*asked);
  std::vector<double> times;
  for (const BlockCosts& block : blocks) {
    times.push_back(block.forward_time + block.backward_time);
  }
  return min_max_cuts(times, std::min(stages, count));
}

void add_boundary_traffic(PlanReport& report, const std::vector<StageCosts>& stages,
                          const std::vector<int>& device, int micro_batches) {
  double bytes = 0;
  for (std::size_t s = 0; s + 1 < stages.size(); ++s) {
    if (device[s] == device[s + 1]) continue;
    bytes += stages[s].activation + stages[s + 1].activation_gradient;
  }
  report.figures["traffic_up_bytes"] += micro_batches * bytes;
  report.figures["traffic_down_bytes"] += micro_batches * bytes;
}

}  // namespace ferry
