#include "planner/mixed/assign.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "planner/mixed/assign_bounds.h"
#include "planner/mixed/exact_assign.h"

namespace ferry {
namespace {

// Where the items end up when nothing limits them but each goes where most is left: the GPU that
// then lacks most is the one to name.
MixedShortage shortage_of(const LoadModel& model, const GpuBytes& budgets) {
  LoadTracker tracker(model);
  for (const ItemId item : heaviest_first(model, LptKey::memory, budgets)) {
    GpuId best;
    Bytes most_left{std::numeric_limits<std::int64_t>::min()};
    for (const GpuId g : model.gpu_ids()) {
      tracker.place(item, g);
      const Bytes left = budgets[g] - tracker.memory(g);
      tracker.undo();
      if (left > most_left) {
        most_left = left;
        best = g;
      }
    }
    tracker.place(item, best);
  }
  MixedShortage shortage;
  for (const GpuId g : model.gpu_ids()) {
    if (shortage.gpu.valid() && tracker.memory(g) - budgets[g] <= shortage.missing()) continue;
    shortage.gpu = g;
    shortage.place = model.machine().gpus[g].name;
    shortage.needed = tracker.memory(g);
    shortage.budget = budgets[g];
  }
  return shortage;
}

// Infeasible whatever the search: some item fits no empty GPU, or all together are too large.
bool plainly_too_large(const LoadModel& model, const GpuBytes& budgets) {
  Bytes free;
  for (const GpuId g : model.gpu_ids()) {
    free += std::max(0_B, budgets[g] - model.machine().gpus[g].context);
  }
  LoadTracker tracker(model);
  for (const ItemId item : model.items().ids()) {
    free -= model.resident(item);
    const bool fits = std::ranges::any_of(model.gpu_ids(), [&](GpuId g) {
      tracker.place(item, g);
      const Bytes memory = tracker.memory(g);
      tracker.undo();
      return memory <= budgets[g];
    });
    if (!fits) return true;
  }
  return free < 0_B;
}

struct Seed {
  ItemGpus gpu_of_item;
  double period = 0;
  Bytes bytes;
};

// The feasible LPT result with the shortest period, then the fewest bytes.
Seed best_lpt(const LoadModel& model, const GpuBytes& budgets) {
  Seed best;
  for (const LptKey key : {LptKey::compute, LptKey::memory, LptKey::larger_share}) {
    const std::optional<ItemGpus> gpu_of_item = lpt(model, key, budgets);
    if (!gpu_of_item) continue;
    const LoadTracker load = load_of(model, *gpu_of_item);
    const Seed seed{*gpu_of_item, load.period(), load.step_bytes()};
    const bool better =
        seed.period < best.period || (seed.period == best.period && seed.bytes < best.bytes);
    if (best.gpu_of_item.empty() || better) best = seed;
  }
  return best;
}

}  // namespace

GpuBytes budgets_of(const MixedMachine& machine) {
  GpuBytes budgets;
  for (const MixedGpu& gpu : machine.gpus) budgets.push_back(gpu.budget);
  return budgets;
}

std::optional<ItemGpus> list_assign(const LoadModel& model, const std::vector<ItemId>& order,
                                    const GpuBytes& budgets) {
  LoadTracker tracker(model);
  ItemGpus gpu_of_item(model.items().size());
  for (const ItemId item : order) {
    GpuId best;
    double least = std::numeric_limits<double>::infinity();
    for (const GpuId g : model.gpu_ids()) {
      const double load = tracker.compute(g) + model.seconds(item, g);
      if (load >= least) continue;
      tracker.place(item, g);
      if (tracker.within(budgets)) {
        least = load;
        best = g;
      }
      tracker.undo();
    }
    if (!best.valid()) return std::nullopt;
    tracker.place(item, best);
    gpu_of_item[item] = best;
  }
  return gpu_of_item;
}

std::vector<ItemId> heaviest_first(const LoadModel& model, LptKey key, const GpuBytes& budgets) {
  double all_seconds = 0;
  Bytes all_memory;
  for (const ItemId item : model.items().ids()) all_seconds += model.least_seconds(item);
  for (const Bytes budget : budgets) all_memory += budget;
  IdVector<ItemId, double> keys;
  for (const ItemId item : model.items().ids()) {
    const double compute = all_seconds > 0 ? model.least_seconds(item) / all_seconds : 0;
    const double memory = all_memory > 0_B ? static_cast<double>(model.resident(item).count) /
                                                 static_cast<double>(all_memory.count)
                                           : 0;
    keys.push_back(key == LptKey::compute  ? compute
                   : key == LptKey::memory ? memory
                                           : std::max(compute, memory));
  }
  std::vector<ItemId> order(keys.ids().begin(), keys.ids().end());
  std::ranges::stable_sort(order, [&](ItemId a, ItemId b) { return keys[a] > keys[b]; });
  return order;
}

std::optional<ItemGpus> lpt(const LoadModel& model, LptKey key, const GpuBytes& budgets) {
  return list_assign(model, heaviest_first(model, key, budgets), budgets);
}

AssignResult assign(const LoadModel& model, const GpuBytes& budgets, std::int64_t nodes) {
  AssignResult result;
  result.lower_bound = assignment_lower_bound(model);
  const Seed seed = best_lpt(model, budgets);
  result.gpu_of_item = seed.gpu_of_item;
  result.period = seed.period;
  result.step_bytes = seed.bytes;
  bool proven = false;
  if (model.items().size() <= kExactItems && model.gpus() <= kExactGpus) {
    const ExactResult exact = exact_assign(model, budgets, {nodes, seed.gpu_of_item});
    proven = exact.gpu_of_item.empty() && exact.period_exact;
    if (!exact.gpu_of_item.empty()) {
      result.gpu_of_item = exact.gpu_of_item;
      result.period = exact.period;
      result.step_bytes = exact.step_bytes;
      result.period_exact = exact.period_exact;
      result.bytes_exact = exact.bytes_exact;
    }
  }
  if (result.gpu_of_item.empty()) {
    result.shortage = shortage_of(model, budgets);
    result.shortage.proven = proven || plainly_too_large(model, budgets);
  }
  return result;
}

}  // namespace ferry
