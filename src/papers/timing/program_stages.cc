#include "papers/timing/program_stages.h"

#include <algorithm>
#include <cstddef>

#include "papers/timing/block_costs.h"
#include "planner/cuts/asked_stages.h"
#include "planner/cuts/contiguous.h"

namespace ferry {

std::vector<int> asked_ends(const PlanQuestion& question, int stages) {
  const std::vector<BlockCosts> blocks = profile_costs(question.profile);
  const int count = static_cast<int>(blocks.size());
  if (question.options.stages) return ends_of(*question.options.stages, count, "plan.stages");
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

std::vector<StageReport> stage_reports(const Machine& machine, const std::vector<int>& ends,
                                       const std::vector<int>& device) {
  std::vector<StageReport> reports;
  int first = 0;
  for (std::size_t s = 0; s < ends.size(); ++s) {
    reports.push_back({Direction::both, machine.devices[static_cast<std::size_t>(device[s])].name,
                       first, ends[s]});
    first = ends[s];
  }
  return reports;
}

}  // namespace ferry
