#include "planner/mixed/mixed_candidate.h"

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>

#include "planner/mixed/skip_tensors.h"

namespace ferry {
namespace {

Items single_blocks(const BlockGraph& graph) {
  Items items;
  for (const BlockId b : graph.blocks.ids()) items.push_back({b});
  return items;
}

}  // namespace

bool MixedKey::beats(const MixedKey& other) const {
  constexpr double kTolerance = 1e-12;
  if (seconds < other.seconds * (1 - kTolerance)) return true;
  if (seconds > other.seconds * (1 + kTolerance)) return false;
  return std::tie(step_bytes, peak, stages) < std::tie(other.step_bytes, other.peak, other.stages);
}

CandidateMaker::CandidateMaker(const BlockGraph& graph, const MixedMachine& machine,
                               const LoadRules& rules, HoldsRule holds,
                               std::vector<char> rematerialised)
    : rules_(rules),
      holds_(std::move(holds)),
      rematerialised_(std::move(rematerialised)),
      model_(graph, machine, single_blocks(graph), rules, rematerialised_),
      tracker_(model_),
      builder_(graph) {}

MixedCandidate CandidateMaker::make(Placement placement) {
  MixedCandidate candidate;
  candidate.stages = builder_.build(placement);
  candidate.holds = holds_(candidate.stages);
  candidate.memory = stage_memory({graph(), model_.machine(), rules_, rematerialised_},
                                  candidate.stages, candidate.holds);
  tracker_.clear();
  for (const ItemId item : model_.items().ids()) {
    tracker_.place(item, placement.gpu_of[model_.items()[item].front()]);
  }
  candidate.compute = recompute_seconds(graph(), rematerialised_, candidate.stages, gpus());
  for (const GpuId g : model_.gpu_ids()) candidate.compute[g] += tracker_.compute(g);
  candidate.step_bytes = tracker_.step_bytes();
  candidate.period = std::max(std::ranges::max(candidate.compute), tracker_.traffic_seconds());
  candidate.placement = std::move(placement);
  return candidate;
}

bool CandidateMaker::fits(const MixedCandidate& candidate) const {
  return std::ranges::all_of(model_.gpu_ids(), [&](GpuId g) {
    return candidate.memory[g] <= model_.machine().gpus[g].budget;
  });
}

MixedKey CandidateMaker::key(const MixedCandidate& candidate, double seconds) const {
  return {seconds, candidate.step_bytes, std::ranges::max(candidate.memory),
          static_cast<int>(candidate.stages.size())};
}

}  // namespace ferry
