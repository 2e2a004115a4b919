#include "planner/mixed/exact_assign.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

#include "base/check.h"
#include "planner/mixed/assign_bounds.h"

namespace ferry {
namespace {

// Periods closer than this are equal: sums of times in another order differ by less.
constexpr double kTolerance = 1e-12;

bool below_equal_links(const MixedMachine& machine, GpuId a, GpuId b) {
  return std::ranges::all_of(machine.links, [&](const SharedLink& link) {
    return std::ranges::binary_search(link.gpus, a) == std::ranges::binary_search(link.gpus, b);
  });
}

// The lowest GPU that `gpu` may be exchanged with in any assignment.
IdVector<GpuId, GpuId> twins(const LoadModel& model, const GpuBytes& budgets) {
  const MixedMachine& machine = model.machine();
  IdVector<GpuId, GpuId> twin(machine.gpus.size());
  for (const GpuId g : model.gpu_ids()) {
    const MixedGpu& gpu = machine.gpus[g];
    twin[g] = g;
    for (GpuId h(0); h < g && twin[g] == g; ++h) {
      const MixedGpu& other = machine.gpus[h];
      const bool same_place = gpu.context == other.context && budgets[g] == budgets[h] &&
                              gpu.in_rate == other.in_rate && gpu.out_rate == other.out_rate &&
                              below_equal_links(machine, g, h);
      const bool same_speed = std::ranges::all_of(
          model.seconds(), [&](const auto& item) { return item[g] == item[h]; });
      if (same_place && same_speed) twin[g] = h;
    }
  }
  return twin;
}

enum class Goal { period, bytes };

class AssignSearch {
 public:
  AssignSearch(const LoadModel& model, const GpuBytes& budgets, std::int64_t nodes)
      : model_(model),
        budgets_(budgets),
        twin_(twins(model, budgets)),
        prices_(gpu_prices(model.seconds()).prices),
        floor_(assignment_lower_bound(model)),
        node_limit_(nodes),
        tracker_(model) {}

  void start_from(const ItemGpus& gpu_of_item) {
    const LoadTracker load = load_of(model_, gpu_of_item);
    best_ = gpu_of_item;
    best_period_ = load.period();
    best_bytes_ = load.step_bytes();
  }

  /// Returns whether the search ended before the node limit: its answer is the best there is.
  bool run(Goal goal) {
    goal_ = goal;
    prepare_order();
    tracker_.clear();
    chosen_.assign(model_.items().size(), GpuId());
    used_.assign(twin_.size(), 0);
    nodes_ = 0;
    open_.clear();
    push_level(0);
    while (!open_.empty()) {
      Level& level = open_.back();
      if (level.tried > 0) take_back(level);
      if (level.tried == level.gpus.size()) {
        open_.pop_back();
        continue;
      }
      if (nodes_ == node_limit_) return false;
      ++nodes_;
      descend(level);
    }
    return true;
  }

  bool reached_floor() const { return best_period_ <= floor_ * (1 + kTolerance); }
  const ItemGpus& best() const { return best_; }
  double best_period() const { return best_period_; }
  Bytes best_bytes() const { return best_bytes_; }

 private:
  // The GPUs to try for the depth-th item, best first.
  struct Level {
    std::size_t depth;
    std::vector<GpuId> gpus;
    std::size_t tried = 0;
    bool placed = false;
  };

  // Periods are found fastest with the heaviest items first, bytes with neighbours in a row.
  void prepare_order() {
    const IdRange<ItemId> items = model_.items().ids();
    order_.assign(items.begin(), items.end());
    if (goal_ == Goal::period) {
      std::ranges::stable_sort(order_, [&](ItemId a, ItemId b) {
        return model_.least_seconds(a) > model_.least_seconds(b);
      });
    }
    priced_left_.assign(order_.size() + 1, 0.0);
    memory_left_.assign(order_.size() + 1, 0_B);
    for (std::size_t d = order_.size(); d-- > 0;) {
      double cheapest = std::numeric_limits<double>::infinity();
      for (const GpuId g : model_.gpu_ids()) {
        cheapest = std::min(cheapest, prices_[g] * model_.seconds(order_[d], g));
      }
      priced_left_[d] = priced_left_[d + 1] + cheapest;
      memory_left_[d] = memory_left_[d + 1] + model_.resident(order_[d]);
    }
  }

  void push_level(std::size_t depth) {
    Level level{depth, {}};
    const ItemId item = order_[depth];
    std::vector<std::pair<double, GpuId>> ranked;
    for (const GpuId g : model_.gpu_ids()) {
      if (stands_for_an_earlier_one(g)) continue;
      tracker_.place(item, g);
      if (tracker_.within(budgets_)) {
        ranked.emplace_back(goal_ == Goal::period
                                ? tracker_.compute(g)
                                : static_cast<double>(tracker_.step_bytes().count),
                            g);
      }
      tracker_.undo();
    }
    std::ranges::sort(ranked);
    for (const auto& [rank, gpu] : ranked) level.gpus.push_back(gpu);
    open_.push_back(std::move(level));
  }

  // Breaks the symmetry of equal GPUs: of the empty ones that are alike only the first is tried.
  bool stands_for_an_earlier_one(GpuId gpu) const {
    if (used_[gpu] > 0) return false;
    for (GpuId other(0); other < gpu; ++other) {
      if (used_[other] == 0 && twin_[other] == twin_[gpu]) return true;
    }
    return false;
  }

  void take_back(Level& level) {
    if (!level.placed) return;
    level.placed = false;
    const ItemId item = order_[level.depth];
    --used_[chosen_[item]];
    chosen_[item] = {};
    tracker_.undo();
  }

  void descend(Level& level) {
    const ItemId item = order_[level.depth];
    const GpuId gpu = level.gpus[level.tried++];
    tracker_.place(item, gpu);
    chosen_[item] = gpu;
    ++used_[gpu];
    level.placed = true;
    const std::size_t depth = level.depth + 1;
    if (hopeless(depth)) return;
    if (depth < order_.size()) {
      push_level(depth);  // `level` is no longer valid
      return;
    }
    const double period = tracker_.period();
    const Bytes bytes = tracker_.step_bytes();
    const bool shorter = period < best_period_ * (1 - kTolerance);
    const bool cheaper = period <= best_period_ * (1 + kTolerance) && bytes < best_bytes_;
    if (best_.empty() || shorter || cheaper) {
      best_ = chosen_;
      best_period_ = std::min(period, best_period_);
      best_bytes_ = bytes;
    }
  }

  // Loads never fall as items are added, so a partial assignment bounds its completions.
  bool hopeless(std::size_t depth) const {
    Bytes free;
    double priced = priced_left_[depth];
    for (const GpuId g : model_.gpu_ids()) {
      free += budgets_[g] - tracker_.memory(g);
      priced += prices_[g] * tracker_.compute(g);
    }
    if (memory_left_[depth] > free) return true;
    if (best_.empty()) return false;
    double bound = std::max({floor_, priced, tracker_.period()});
    if (depth < order_.size()) bound = std::max(bound, next_item_bound(order_[depth]));
    if (goal_ == Goal::period) return bound >= best_period_ * (1 - kTolerance);
    return bound > best_period_ * (1 + kTolerance) || tracker_.step_bytes() >= best_bytes_;
  }

  double next_item_bound(ItemId item) const {
    double least = std::numeric_limits<double>::infinity();
    for (const GpuId g : model_.gpu_ids()) {
      least = std::min(least, tracker_.compute(g) + model_.seconds(item, g));
    }
    return least;
  }

  const LoadModel& model_;
  const GpuBytes& budgets_;
  IdVector<GpuId, GpuId> twin_;
  IdVector<GpuId, double> prices_;
  double floor_;
  std::int64_t node_limit_;
  LoadTracker tracker_;

  Goal goal_ = Goal::period;
  std::int64_t nodes_ = 0;
  std::vector<ItemId> order_;
  std::vector<double> priced_left_;  // of the items from a depth on: what the prices ask at least
  std::vector<Bytes> memory_left_;
  ItemGpus chosen_;
  IdVector<GpuId, int> used_;  // items on each GPU
  std::vector<Level> open_;

  ItemGpus best_;
  double best_period_ = std::numeric_limits<double>::infinity();
  Bytes best_bytes_{std::numeric_limits<std::int64_t>::max()};
};

}  // namespace

ExactResult exact_assign(const LoadModel& model, const GpuBytes& budgets,
                         const ExactOptions& options) {
  FERRY_CHECK(model.items().size() <= kExactItems && model.gpus() <= kExactGpus,
              "the exact search is for few items and GPUs");
  AssignSearch search(model, budgets, options.nodes);
  if (!options.incumbent.empty()) search.start_from(options.incumbent);
  ExactResult result;
  const bool met = !search.best().empty() && search.reached_floor();
  result.period_exact =
      met || search.run(Goal::period) || (!search.best().empty() && search.reached_floor());
  if (search.best().empty()) return result;
  result.bytes_exact = search.run(Goal::bytes) && result.period_exact;
  result.period_exact = result.period_exact || search.reached_floor();
  result.gpu_of_item = search.best();
  result.period = search.best_period();
  result.step_bytes = search.best_bytes();
  return result;
}

}  // namespace ferry
