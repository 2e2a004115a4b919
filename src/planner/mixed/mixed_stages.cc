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

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// For each open stage the set of stages that it is reached from, kept closed under reachability.
class Ancestors {
 public:
  explicit Ancestors(int most) : words_((at(most) + 63) / 64), bits_(words_ * at(most), 0) {}

  bool reaches(int from, int stage) const {
    return ((row(stage)[at(from) / 64] >> (at(from) % 64)) & 1U) != 0;
  }

  // Adds an edge; `stages` exist so far. Requires: `stage` does not reach `from`.
  void add(int from, int stage, int stages) {
    if (reaches(from, stage)) return;
    std::vector<std::uint64_t> news(row(from), row(from) + words_);
    news[at(from) / 64] |= std::uint64_t{1} << (at(from) % 64);
    for (int s = 0; s < stages; ++s) {
      if (s != stage && !reaches(stage, s)) continue;
      for (std::size_t w = 0; w < words_; ++w) row(s)[w] |= news[w];
    }
  }

 private:
  std::uint64_t* row(int stage) { return bits_.data() + at(stage) * words_; }
  const std::uint64_t* row(int stage) const { return bits_.data() + at(stage) * words_; }

  std::size_t words_;
  std::vector<std::uint64_t> bits_;
};

int root_of(std::vector<int>& parent, int block) {
  while (parent[at(block)] != block) {
    parent[at(block)] = parent[at(parent[at(block)])];
    block = parent[at(block)];
  }
  return block;
}

}  // namespace

StageBuilder::StageBuilder(const BlockGraph& graph) : predecessors_(predecessors(graph)) {}

// The connected components of the bins, each named by one of its blocks.
std::vector<int> StageBuilder::components(const Placement& placement) const {
  std::vector<int> parent(predecessors_.size());
  std::iota(parent.begin(), parent.end(), 0);
  for (int b = 0; b < static_cast<int>(parent.size()); ++b) {
    for (const int before : predecessors_[at(b)]) {
      const bool together = placement.bin_of[at(b)] == placement.bin_of[at(before)] &&
                            placement.gpu_of[at(b)] == placement.gpu_of[at(before)];
      if (together) parent[at(root_of(parent, b))] = root_of(parent, before);
    }
  }
  std::vector<int> component(parent.size());
  for (int b = 0; b < static_cast<int>(parent.size()); ++b) component[at(b)] = root_of(parent, b);
  return component;
}

std::vector<MixedStage> StageBuilder::build(const Placement& placement) const {
  const int blocks = static_cast<int>(predecessors_.size());
  const std::vector<int> component = components(placement);
  std::vector<int> open(at(blocks), -1);  // of each component: the stage that still grows
  std::vector<int> stage_of(at(blocks), -1);
  std::vector<MixedStage> stages;
  Ancestors ancestors(blocks);
  for (int b = 0; b < blocks; ++b) {
    int& stage = open[at(component[at(b)])];
    // The block may join unless a path from the stage comes back through another one.
    const bool comes_back =
        stage >= 0 && std::ranges::any_of(predecessors_[at(b)], [&](int before) {
          return ancestors.reaches(stage, stage_of[at(before)]);
        });
    if (stage < 0 || comes_back) {
      stage = static_cast<int>(stages.size());
      stages.push_back({placement.gpu_of[at(b)], {}, 0});
    }
    stages[at(stage)].blocks.push_back(b);
    stage_of[at(b)] = stage;
    for (const int before : predecessors_[at(b)]) {
      const int from = stage_of[at(before)];
      if (from != stage) ancestors.add(from, stage, static_cast<int>(stages.size()));
    }
  }

  // Ids by topological rank, then the depths from the last stage back.
  const std::vector<std::vector<int>> reads = sources(stages);
  std::vector<std::vector<int>> readers(stages.size());
  std::vector<int> waits(stages.size());
  using Ready = std::pair<int, int>;  // first block, stage
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
  for (int s = 0; s < static_cast<int>(stages.size()); ++s) {
    waits[at(s)] = static_cast<int>(reads[at(s)].size());
    for (const int source : reads[at(s)]) readers[at(source)].push_back(s);
    if (waits[at(s)] == 0) ready.emplace(stages[at(s)].blocks.front(), s);
  }
  std::vector<int> order;
  while (!ready.empty()) {
    const int s = ready.top().second;
    ready.pop();
    order.push_back(s);
    for (const int reader : readers[at(s)]) {
      if (--waits[at(reader)] == 0) ready.emplace(stages[at(reader)].blocks.front(), reader);
    }
  }
  FERRY_CHECK(order.size() == stages.size(), "the graph of stages has a cycle");
  for (auto s = order.rbegin(); s != order.rend(); ++s) {
    for (const int reader : readers[at(*s)]) {
      stages[at(*s)].depth = std::max(stages[at(*s)].depth, stages[at(reader)].depth + 1);
    }
  }
  std::vector<MixedStage> ranked;
  ranked.reserve(stages.size());
  for (const int s : order) ranked.push_back(std::move(stages[at(s)]));
  return ranked;
}

std::vector<std::vector<int>> StageBuilder::sources(const std::vector<MixedStage>& stages) const {
  const std::vector<int> stage_of = stage_of_block(stages, static_cast<int>(predecessors_.size()));
  std::vector<std::vector<int>> result(stages.size());
  for (int s = 0; s < static_cast<int>(stages.size()); ++s) {
    for (const int b : stages[at(s)].blocks) {
      for (const int before : predecessors_[at(b)]) {
        if (stage_of[at(before)] != s) result[at(s)].push_back(stage_of[at(before)]);
      }
    }
    std::ranges::sort(result[at(s)]);
    const auto rest = std::ranges::unique(result[at(s)]);
    result[at(s)].erase(rest.begin(), rest.end());
  }
  return result;
}

std::vector<int> stage_of_block(const std::vector<MixedStage>& stages, int blocks) {
  std::vector<int> stage_of(at(blocks), -1);
  for (int s = 0; s < static_cast<int>(stages.size()); ++s) {
    for (const int b : stages[at(s)].blocks) stage_of[at(b)] = s;
  }
  return stage_of;
}

}  // namespace ferry
