#include "planner/mixed/mixed_stages.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

#include "base/check.h"

namespace ferry {
namespace {

// For each open stage the set of stages that it is reached from, kept closed under reachability.
class Ancestors {
 public:
  explicit Ancestors(std::size_t most) : words_((most + 63) / 64), bits_(words_ * most, 0) {}

  bool reaches(MixedStageId from, MixedStageId stage) const {
    return ((row(stage)[from.index() / 64] >> (from.index() % 64)) & 1U) != 0;
  }

  // Adds an edge; `stages` exist so far. Requires: `stage` does not reach `from`.
  void add(MixedStageId from, MixedStageId stage, IdRange<MixedStageId> stages) {
    if (reaches(from, stage)) return;
    std::vector<std::uint64_t> news(row(from), row(from) + words_);
    news[from.index() / 64] |= std::uint64_t{1} << (from.index() % 64);
    for (const MixedStageId s : stages) {
      if (s != stage && !reaches(stage, s)) continue;
      for (std::size_t w = 0; w < words_; ++w) row(s)[w] |= news[w];
    }
  }

 private:
  std::uint64_t* row(MixedStageId stage) { return bits_.data() + stage.index() * words_; }
  const std::uint64_t* row(MixedStageId stage) const {
    return bits_.data() + stage.index() * words_;
  }

  std::size_t words_;
  std::vector<std::uint64_t> bits_;
};

BlockId root_of(IdVector<BlockId, BlockId>& parent, BlockId block) {
  while (parent[block] != block) {
    parent[block] = parent[parent[block]];
    block = parent[block];
  }
  return block;
}

}  // namespace

Placement gpus_as_bins(IdVector<BlockId, GpuId> gpu_of) {
  Placement placement{std::move(gpu_of), {}};
  for (const GpuId gpu : placement.gpu_of) placement.bin_of.push_back(gpu.number());
  return placement;
}

StageBuilder::StageBuilder(const BlockGraph& graph) : predecessors_(predecessors(graph)) {}

// The connected components of the bins, each named by one of its blocks.
IdVector<BlockId, BlockId> StageBuilder::components(const Placement& placement) const {
  IdVector<BlockId, BlockId> parent;
  for (const BlockId b : predecessors_.ids()) {
    parent.push_back(b);
    for (const BlockId before : predecessors_[b]) {
      const bool together = placement.bin_of[b] == placement.bin_of[before] &&
                            placement.gpu_of[b] == placement.gpu_of[before];
      if (together) parent[root_of(parent, b)] = root_of(parent, before);
    }
  }
  IdVector<BlockId, BlockId> component(parent.size());
  for (const BlockId b : parent.ids()) component[b] = root_of(parent, b);
  return component;
}

MixedStages StageBuilder::build(const Placement& placement) const {
  return in_order(cut_components(placement));
}

// Without depths, in the order of their first blocks.
MixedStages StageBuilder::cut_components(const Placement& placement) const {
  const std::size_t blocks = predecessors_.size();
  const IdVector<BlockId, BlockId> component = components(placement);
  IdVector<BlockId, MixedStageId> open(blocks);  // of each component: the stage that still grows
  IdVector<BlockId, MixedStageId> stage_of(blocks);
  MixedStages stages;
  Ancestors ancestors(blocks);
  for (const BlockId b : predecessors_.ids()) {
    MixedStageId& stage = open[component[b]];
    // The block may join unless a path from the stage comes back through another one.
    const bool comes_back =
        stage.valid() && std::ranges::any_of(predecessors_[b], [&](BlockId before) {
          return ancestors.reaches(stage, stage_of[before]);
        });
    if (!stage.valid() || comes_back) stage = stages.add({placement.gpu_of[b], {}, 0});
    stages[stage].blocks.push_back(b);
    stage_of[b] = stage;
    for (const BlockId before : predecessors_[b]) {
      const MixedStageId from = stage_of[before];
      if (from != stage) ancestors.add(from, stage, stages.ids());
    }
  }
  return stages;
}

// Ids by topological rank, with the depths from the last stage back.
MixedStages StageBuilder::in_order(MixedStages stages) const {
  const auto reads = sources(stages);
  IdVector<MixedStageId, std::vector<MixedStageId>> readers(stages.size());
  IdVector<MixedStageId, std::size_t> waits(stages.size());
  using Ready = std::pair<BlockId, MixedStageId>;  // first block, stage
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
  for (const MixedStageId s : stages.ids()) {
    waits[s] = reads[s].size();
    for (const MixedStageId source : reads[s]) readers[source].push_back(s);
    if (waits[s] == 0) ready.emplace(stages[s].blocks.front(), s);
  }
  std::vector<MixedStageId> order;
  while (!ready.empty()) {
    const MixedStageId s = ready.top().second;
    ready.pop();
    order.push_back(s);
    for (const MixedStageId reader : readers[s]) {
      if (--waits[reader] == 0) ready.emplace(stages[reader].blocks.front(), reader);
    }
  }
  FERRY_CHECK(order.size() == stages.size(), "the graph of stages has a cycle");
  for (auto s = order.rbegin(); s != order.rend(); ++s) {
    for (const MixedStageId reader : readers[*s]) {
      stages[*s].depth = std::max(stages[*s].depth, stages[reader].depth + 1);
    }
  }
  MixedStages ranked;
  ranked.reserve(stages.size());
  for (const MixedStageId s : order) ranked.push_back(std::move(stages[s]));
  return ranked;
}

IdVector<MixedStageId, std::vector<MixedStageId>> StageBuilder::sources(
    const MixedStages& stages) const {
  const auto stage_of = stage_of_block(stages, predecessors_.size());
  IdVector<MixedStageId, std::vector<MixedStageId>> result(stages.size());
  for (const MixedStageId s : stages.ids()) {
    for (const BlockId b : stages[s].blocks) {
      for (const BlockId before : predecessors_[b]) {
        if (stage_of[before] != s) result[s].push_back(stage_of[before]);
      }
    }
    std::ranges::sort(result[s]);
    const auto rest = std::ranges::unique(result[s]);
    result[s].erase(rest.begin(), rest.end());
  }
  return result;
}

IdVector<BlockId, MixedStageId> stage_of_block(const MixedStages& stages, std::size_t blocks) {
  IdVector<BlockId, MixedStageId> stage_of(blocks);
  for (const MixedStageId s : stages.ids()) {
    for (const BlockId b : stages[s].blocks) stage_of[b] = s;
  }
  return stage_of;
}

}  // namespace ferry
