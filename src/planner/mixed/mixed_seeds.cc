#include "planner/mixed/mixed_seeds.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "planner/cuts/contiguous.h"

namespace ferry {
namespace {

// How often budgets are tightened before a coarsening is given up.
constexpr int kTightenings = 4;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// Groups that hold blocks of one `together` become one item.
Items joined(const BlockGraph& graph, const Items& groups, const Together& together) {
  std::vector<int> group_of(graph.blocks.size());
  for (std::size_t i = 0; i < groups.size(); ++i) {
    for (const int block : groups[i]) group_of[at(block)] = static_cast<int>(i);
  }
  std::vector<int> item_of(groups.size());
  std::iota(item_of.begin(), item_of.end(), 0);
  for (const std::vector<int>& blocks : together) {
    for (const int block : blocks) {
      const int a = item_of[at(group_of[at(blocks.front())])];
      const int b = item_of[at(group_of[at(block)])];
      std::ranges::replace(item_of, std::max(a, b), std::min(a, b));
    }
  }
  Items items(groups.size());
  for (std::size_t i = 0; i < groups.size(); ++i) {
    std::vector<int>& item = items[at(item_of[i])];
    item.insert(item.end(), groups[i].begin(), groups[i].end());
  }
  std::erase_if(items, [](const std::vector<int>& item) { return item.empty(); });
  return items;
}

// Deals the items of each class again, as many to each GPU as before, so that a GPU's items are
// neighbours. GPUs take turns in the order in which the first class has them; with `folded` every
// second class goes the other way.
std::vector<int> regathered(const LoadModel& model, const std::vector<int>& gpu_of_item,
                            bool folded) {
  std::map<std::string, std::vector<int>> classes;
  std::vector<std::string> kinds;
  for (int i = 0; i < model.size(); ++i) {
    const int block = model.items()[at(i)].front();
    const std::string& kind = model.graph().blocks[at(block)].kind;
    std::vector<int>& members = classes[kind];
    if (members.empty()) kinds.push_back(kind);
    members.push_back(i);
  }
  std::vector<int> result = gpu_of_item;
  bool backwards = false;
  for (const std::string& kind : kinds) {
    const std::vector<int>& members = classes[kind];
    std::vector<int> count(at(model.gpus()), 0);
    for (const int item : members) ++count[at(gpu_of_item[at(item)])];
    std::size_t next = 0;
    for (int turn = 0; turn < model.gpus(); ++turn) {
      const int gpu = backwards ? model.gpus() - 1 - turn : turn;
      for (int k = 0; k < count[at(gpu)]; ++k) result[at(members[next++])] = gpu;
    }
    // A class of one, such as an embedding, is no direction to fold.
    if (folded && members.size() > 1) backwards = !backwards;
  }
  return result;
}

MixedShortage excess_of(const MixedMachine& machine, const std::vector<Bytes>& memory) {
  MixedShortage shortage;
  for (int g = 0; g < machine.size(); ++g) {
    const MixedGpu& gpu = machine.gpus[at(g)];
    if (shortage.gpu >= 0 && memory[at(g)] - gpu.budget <= shortage.missing()) continue;
    shortage = {g, gpu.name, memory[at(g)], gpu.budget, false};
  }
  return shortage;
}

Placement placement_of(const CandidateMaker& maker, const Items& groups,
                       std::vector<int> gpu_of_block) {
  Placement placement{std::move(gpu_of_block), {}};
  placement.bin_of = placement.gpu_of;
  if (!maker.keeps_groups()) return placement;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    for (const int block : groups[i]) placement.bin_of[at(block)] = static_cast<int>(i);
  }
  return placement;
}

}  // namespace

Together together_of(const BlockGraph& graph, std::uint32_t colocated) {
  Together together;
  for (std::size_t t = 0; t < graph.tied.size(); ++t) {
    if (((colocated >> t) & 1U) == 0) continue;
    together.push_back({graph.tied[t].owner});
    together.back().insert(together.back().end(), graph.tied[t].readers.begin(),
                           graph.tied[t].readers.end());
  }
  return together;
}

Seeds group_seeds(const SeedProblem& question, CandidateMaker& maker, const Items& groups,
                  const Together& together) {
  const LoadModel model(question.graph, question.machine, joined(question.graph, groups, together),
                        question.rules, maker.rematerialised());
  std::vector<Bytes> budgets = budgets_of(question.machine);
  Seeds seeds;
  for (int attempt = 0; attempt < kTightenings; ++attempt) {
    const AssignResult assigned = assign(model, budgets, question.exact_nodes);
    if (assigned.gpu_of_item.empty()) {
      if (attempt == 0) seeds.shortage = assigned.shortage;
      return seeds;
    }
    std::vector<std::vector<int>> choices{assigned.gpu_of_item};
    choices.push_back(regathered(model, assigned.gpu_of_item, false));
    choices.push_back(regathered(model, assigned.gpu_of_item, true));
    std::optional<MixedCandidate> first;
    for (const std::vector<int>& choice : choices) {
      MixedCandidate candidate =
          maker.make(placement_of(maker, groups, model.gpu_of_block(choice)));
      if (!first) first = candidate;
      if (maker.fits(candidate)) seeds.fitting.push_back(std::move(candidate));
    }
    if (!seeds.fitting.empty()) return seeds;
    const MixedShortage excess = excess_of(question.machine, first->memory);
    if (attempt == 0 || excess.missing() < seeds.shortage.missing()) seeds.shortage = excess;
    for (std::size_t g = 0; g < budgets.size(); ++g) {
      budgets[g] -= std::max(0_B, first->memory[g] - question.machine.gpus[g].budget);
    }
  }
  return seeds;
}

Seeds contiguous_seeds(const SeedProblem& question, CandidateMaker& maker) {
  const Items runs = protected_runs(question.graph);
  const LoadModel model(question.graph, question.machine, runs, question.rules,
                        maker.rematerialised());
  LimitedChain chain;
  for (int i = 0; i < model.size(); ++i) {
    chain.times.push_back(model.least_seconds(i));
    chain.sizes.push_back(static_cast<double>(model.resident(i).count));
  }
  const int parts = std::min(model.gpus(), model.size());
  for (int g = 0; g < parts; ++g) {
    const MixedGpu& gpu = question.machine.gpus[at(g)];
    chain.limits.push_back(static_cast<double>((gpu.budget - gpu.context).count));
  }
  Seeds seeds;
  const std::optional<Cuts> cuts = min_max_cuts_within(chain);
  if (!cuts) return seeds;
  std::vector<int> gpu_of_item;
  Items groups;
  for (int i = 0; i < model.size(); ++i) {
    if (gpu_of_item.empty() || i == (*cuts)[groups.size() - 1]) groups.emplace_back();
    gpu_of_item.push_back(static_cast<int>(groups.size()) - 1);
    groups.back().insert(groups.back().end(), runs[at(i)].begin(), runs[at(i)].end());
  }
  MixedCandidate candidate =
      maker.make(placement_of(maker, groups, model.gpu_of_block(gpu_of_item)));
  if (maker.fits(candidate)) seeds.fitting.push_back(std::move(candidate));
  return seeds;
}

}  // namespace ferry
