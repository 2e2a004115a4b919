#include "planner/mixed/mixed_seeds.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <ranges>
#include <string>
#include <utility>

#include "planner/cuts/contiguous.h"

namespace ferry {
namespace {

// How often budgets are tightened before a coarsening is given up.
constexpr int kTightenings = 4;

// Groups that hold blocks of one `together` become one item.
Items joined(const BlockGraph& graph, const Items& groups, const Together& together) {
  IdVector<BlockId, ItemId> group_of(graph.blocks.size());
  IdVector<ItemId, ItemId> item_of;
  for (const ItemId i : groups.ids()) {
    for (const BlockId block : groups[i]) group_of[block] = i;
    item_of.push_back(i);
  }
  for (const std::vector<BlockId>& blocks : together) {
    for (const BlockId block : blocks) {
      const ItemId a = item_of[group_of[blocks.front()]];
      const ItemId b = item_of[group_of[block]];
      std::ranges::replace(item_of, std::max(a, b), std::min(a, b));
    }
  }
  Items items(groups.size());
  for (const ItemId i : groups.ids()) {
    std::vector<BlockId>& item = items[item_of[i]];
    item.insert(item.end(), groups[i].begin(), groups[i].end());
  }
  std::erase_if(items, [](const std::vector<BlockId>& item) { return item.empty(); });
  return items;
}

// Deals the items of each class again, as many to each GPU as before, so that a GPU's items are
// neighbours. GPUs take turns in the order in which the first class has them; with `folded` every
// second class goes the other way.
ItemGpus regathered(const LoadModel& model, const ItemGpus& gpu_of_item, bool folded) {
  std::map<std::string, std::vector<ItemId>> classes;
  std::vector<std::string> kinds;
  for (const ItemId i : model.items().ids()) {
    const BlockId block = model.items()[i].front();
    const std::string& kind = model.graph().blocks[block].kind;
    std::vector<ItemId>& members = classes[kind];
    if (members.empty()) kinds.push_back(kind);
    members.push_back(i);
  }
  ItemGpus result = gpu_of_item;
  bool backwards = false;
  for (const std::string& kind : kinds) {
    const std::vector<ItemId>& members = classes[kind];
    IdVector<GpuId, int> count(model.machine().gpus.size(), 0);
    for (const ItemId item : members) ++count[gpu_of_item[item]];
    std::size_t next = 0;
    for (int turn = 0; turn < model.gpus(); ++turn) {
      const GpuId gpu(backwards ? model.gpus() - 1 - turn : turn);
      for (int k = 0; k < count[gpu]; ++k) result[members[next++]] = gpu;
    }
    // A class of one, such as an embedding, is no direction to fold.
    if (folded && members.size() > 1) backwards = !backwards;
  }
  return result;
}

MixedShortage excess_of(const MixedMachine& machine, const GpuBytes& memory) {
  MixedShortage shortage;
  for (const GpuId g : machine.gpus.ids()) {
    const MixedGpu& gpu = machine.gpus[g];
    if (shortage.gpu.valid() && memory[g] - gpu.budget <= shortage.missing()) continue;
    shortage = {g, gpu.name, memory[g], gpu.budget, false};
  }
  return shortage;
}

Placement placement_of(const CandidateMaker& maker, const Items& groups,
                       IdVector<BlockId, GpuId> gpu_of_block) {
  Placement placement = gpus_as_bins(std::move(gpu_of_block));
  if (!maker.keeps_groups()) return placement;
  for (const ItemId i : groups.ids()) {
    for (const BlockId block : groups[i]) placement.bin_of[block] = i.number();
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
  GpuBytes budgets = budgets_of(question.machine);
  Seeds seeds;
  for (int attempt = 0; attempt < kTightenings; ++attempt) {
    const AssignResult assigned = assign(model, budgets, question.exact_nodes);
    if (assigned.gpu_of_item.empty()) {
      if (attempt == 0) seeds.shortage = assigned.shortage;
      return seeds;
    }
    std::vector<ItemGpus> choices{assigned.gpu_of_item};
    choices.push_back(regathered(model, assigned.gpu_of_item, false));
    choices.push_back(regathered(model, assigned.gpu_of_item, true));
    std::optional<MixedCandidate> first;
    for (const ItemGpus& choice : choices) {
      MixedCandidate candidate =
          maker.make(placement_of(maker, groups, model.gpu_of_block(choice)));
      if (!first) first = candidate;
      if (maker.fits(candidate)) seeds.fitting.push_back(std::move(candidate));
    }
    if (!seeds.fitting.empty()) return seeds;
    const MixedShortage excess = excess_of(question.machine, first->memory);
    if (attempt == 0 || excess.missing() < seeds.shortage.missing()) seeds.shortage = excess;
    for (const GpuId g : budgets.ids()) {
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
  for (const ItemId i : runs.ids()) {
    chain.times.push_back(model.least_seconds(i));
    chain.sizes.push_back(static_cast<double>(model.resident(i).count));
  }
  for (const MixedGpu& gpu : question.machine.gpus | std::views::take(runs.size())) {
    chain.limits.push_back(static_cast<double>((gpu.budget - gpu.context).count));
  }
  Seeds seeds;
  const std::optional<Cuts> cuts = min_max_cuts_within(chain);
  if (!cuts) return seeds;
  IdVector<BlockId, GpuId> gpu_of;
  Items groups;
  ItemId next(0);
  for (GpuId gpu(0); gpu < std::ssize(*cuts); ++gpu) {
    std::vector<BlockId>& group = groups.emplace_back();
    for (; next < (*cuts)[gpu]; ++next) {
      group.insert(group.end(), runs[next].begin(), runs[next].end());
    }
    gpu_of.resize(gpu_of.size() + group.size(), gpu);
  }
  MixedCandidate candidate = maker.make(placement_of(maker, groups, std::move(gpu_of)));
  if (maker.fits(candidate)) seeds.fitting.push_back(std::move(candidate));
  return seeds;
}

}  // namespace ferry
