#include "planner/mixed/assign.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>

#include "planner/mixed/assign_bounds.h"
#include "planner/mixed/exact_assign.h"

namespace ferry {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// Where the items end up when nothing limits them but each goes where most is left: the GPU that
// then lacks most is the one to name.
MixedShortage shortage_of(const LoadModel& model, const std::vector<Bytes>& budgets) {
  LoadTracker tracker(model);
  for (const int item : heaviest_first(model, LptKey::memory, budgets)) {
    int best = 0;
    Bytes most_left{std::numeric_limits<std::int64_t>::min()};
    for (int g = 0; g < model.gpus(); ++g) {
      tracker.place(item, g);
      const Bytes left = budgets[at(g)] - tracker.memory(g);
      tracker.undo();
      if (left > most_left) {
        most_left = left;
        best = g;
      }
    }
    tracker.place(item, best);
  }
  MixedShortage shortage;
  for (int g = 0; g < model.gpus(); ++g) {
    if (shortage.gpu >= 0 && tracker.memory(g) - budgets[at(g)] <= shortage.missing()) continue;
    shortage.gpu = g;
    shortage.place = model.machine().gpus[at(g)].name;
    shortage.needed = tracker.memory(g);
    shortage.budget = budgets[at(g)];
  }
  return shortage;
}

// Infeasible whatever the search: some item fits no empty GPU, or all together are too large.
bool plainly_too_large(const LoadModel& model, const std::vector<Bytes>& budgets) {
  Bytes free;
  for (int g = 0; g < model.gpus(); ++g) {
    free += std::max(0_B, budgets[at(g)] - model.machine().gpus[at(g)].context);
  }
  LoadTracker tracker(model);
  for (int item = 0; item < model.size(); ++item) {
    free -= model.resident(item);
    bool fits = false;
    for (int g = 0; g < model.gpus() && !fits; ++g) {
      tracker.place(item, g);
      fits = tracker.memory(g) <= budgets[at(g)];
      tracker.undo();
    }
    if (!fits) return true;
  }
  return free < 0_B;
}

struct Seed {
  std::vector<int> gpu_of_item;
  double period = 0;
  Bytes bytes;
};

// The feasible LPT result with the shortest period, then the fewest bytes.
Seed best_lpt(const LoadModel& model, const std::vector<Bytes>& budgets) {
  Seed best;
  for (const LptKey key : {LptKey::compute, LptKey::memory, LptKey::larger_share}) {
    const std::optional<std::vector<int>> gpu_of_item = lpt(model, key, budgets);
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

std::vector<Bytes> budgets_of(const MixedMachine& machine) {
  std::vector<Bytes> budgets;
  for (const MixedGpu& gpu : machine.gpus) budgets.push_back(gpu.budget);
  return budgets;
}

std::optional<std::vector<int>> list_assign(const LoadModel& model, const std::vector<int>& order,
                                            const std::vector<Bytes>& budgets) {
  LoadTracker tracker(model);
  std::vector<int> gpu_of_item(at(model.size()), -1);
  for (const int item : order) {
    int best = -1;
    double least = std::numeric_limits<double>::infinity();
    for (int g = 0; g < model.gpus(); ++g) {
      const double load = tracker.compute(g) + model.seconds(item, g);
      if (load >= least) continue;
      tracker.place(item, g);
      if (tracker.within(budgets)) {
        least = load;
        best = g;
      }
      tracker.undo();
    }
    if (best < 0) return std::nullopt;
    tracker.place(item, best);
    gpu_of_item[at(item)] = best;
  }
  return gpu_of_item;
}

std::vector<int> heaviest_first(const LoadModel& model, LptKey key,
                                const std::vector<Bytes>& budgets) {
  double all_seconds = 0;
  Bytes all_memory;
  for (int item = 0; item < model.size(); ++item) all_seconds += model.least_seconds(item);
  for (const Bytes budget : budgets) all_memory += budget;
  std::vector<double> keys;
  for (int item = 0; item < model.size(); ++item) {
    const double compute = all_seconds > 0 ? model.least_seconds(item) / all_seconds : 0;
    const double memory = all_memory > 0_B ? static_cast<double>(model.resident(item).count) /
                                                 static_cast<double>(all_memory.count)
                                           : 0;
    keys.push_back(key == LptKey::compute  ? compute
                   : key == LptKey::memory ? memory
                                           : std::max(compute, memory));
  }
  std::vector<int> order(keys.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int a, int b) { return keys[at(a)] > keys[at(b)]; });
  return order;
}

std::optional<std::vector<int>> lpt(const LoadModel& model, LptKey key,
                                    const std::vector<Bytes>& budgets) {
  return list_assign(model, heaviest_first(model, key, budgets), budgets);
}

AssignResult assign(const LoadModel& model, const std::vector<Bytes>& budgets, std::int64_t nodes) {
  AssignResult result;
  result.lower_bound = assignment_lower_bound(model);
  const Seed seed = best_lpt(model, budgets);
  result.gpu_of_item = seed.gpu_of_item;
  result.period = seed.period;
  result.step_bytes = seed.bytes;
  bool proven = false;
  if (model.size() <= kExactItems && model.gpus() <= kExactGpus) {
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
