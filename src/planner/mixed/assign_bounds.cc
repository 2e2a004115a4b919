#include "planner/mixed/assign_bounds.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <numeric>

namespace ferry {
namespace {

constexpr int kPriceSteps = 100;
constexpr double kPriceStep = 0.5;  // of the first step; the k-th is this / sqrt(k)

void normalise(IdVector<GpuId, double>& prices) {
  const double total = std::accumulate(prices.begin(), prices.end(), 0.0);
  for (double& price : prices) price /= total;
}

// The bound of `prices`, and the load that each GPU gets when every item goes where it is cheapest.
double priced_bound(const ItemSeconds& seconds, const IdVector<GpuId, double>& prices,
                    IdVector<GpuId, double>& loads) {
  std::ranges::fill(loads, 0.0);
  double bound = 0;
  for (const IdVector<GpuId, double>& item : seconds) {
    GpuId cheapest(0);
    for (const GpuId g : prices.ids()) {
      if (prices[g] * item[g] < prices[cheapest] * item[cheapest]) cheapest = g;
    }
    bound += prices[cheapest] * item[cheapest];
    loads[cheapest] += item[cheapest];
  }
  return bound;
}

bool equal_gpus(const ItemSeconds& seconds) {
  return std::ranges::all_of(seconds, [](const IdVector<GpuId, double>& item) {
    return std::ranges::all_of(item, [&](double other) { return other == item.front(); });
  });
}

double streamed_bound(const LoadModel& model) {
  const MixedMachine& machine = model.machine();
  double up = 0;
  double down = 0;
  for (const GraphBlock& block : model.graph().blocks) {
    up += static_cast<double>(block.step_up.count);
    down += static_cast<double>(block.step_down.count);
  }
  double in_rate = 0;
  double out_rate = 0;
  for (const MixedGpu& gpu : machine.gpus) {
    in_rate += gpu.in_rate;
    out_rate += gpu.out_rate;
  }
  double bound = std::max(up / in_rate, down / out_rate);
  for (const SharedLink& link : machine.links) {
    if (link.gpus.size() != machine.gpus.size()) continue;  // a part of them may stay empty
    bound = std::max({bound, up / link.in_rate, down / link.out_rate});
  }
  return bound / model.micro_batches();
}

}  // namespace

double equal_gpu_bound(std::vector<double> weights, int gpus) {
  std::ranges::sort(weights, std::greater<>());
  const std::size_t p = gpus;
  double bound = std::accumulate(weights.begin(), weights.end(), 0.0) / gpus;
  if (!weights.empty()) bound = std::max(bound, weights.front());
  for (std::size_t k = 1; k * p + 1 <= weights.size(); ++k) {
    double lightest = 0;
    for (std::size_t i = 0; i <= k; ++i) lightest += weights[k * p - i];  // w_{kP+1-i}, from 1
    bound = std::max(bound, lightest);
  }
  return bound;
}

GpuPrices gpu_prices(const ItemSeconds& seconds) {
  const std::size_t gpus = seconds.front().size();
  IdVector<GpuId, double> prices(gpus, 0.0);
  for (const IdVector<GpuId, double>& item : seconds) {
    for (const GpuId g : prices.ids()) prices[g] += item[g];
  }
  // A GPU that takes no time for anything makes the bound 0 at any prices.
  const bool some_free = std::ranges::any_of(prices, [](double total) { return total <= 0; });
  for (double& price : prices) price = some_free ? 1.0 : 1.0 / price;
  normalise(prices);

  IdVector<GpuId, double> loads(gpus);
  GpuPrices best{prices, priced_bound(seconds, prices, loads)};
  if (some_free || equal_gpus(seconds)) return best;
  for (int step = 1; step <= kPriceSteps; ++step) {
    const double total = std::accumulate(loads.begin(), loads.end(), 0.0);
    const double length = kPriceStep / std::sqrt(step);
    for (const GpuId g : prices.ids()) {
      prices[g] *= std::exp(length * (loads[g] / total - 1.0 / static_cast<double>(gpus)));
    }
    normalise(prices);
    const double bound = priced_bound(seconds, prices, loads);
    if (bound > best.bound) best = {prices, bound};
  }
  return best;
}

double assignment_lower_bound(const LoadModel& model) {
  double bound = std::max(gpu_prices(model.seconds()).bound, streamed_bound(model));
  std::vector<double> least;
  for (const ItemId item : model.items().ids()) least.push_back(model.least_seconds(item));
  // On unequal GPUs every item at its fastest is a bound still.
  return std::max(bound, equal_gpu_bound(std::move(least), model.gpus()));
}

double gap_of(double objective, double bound) {
  if (objective <= bound) return 0;
  return objective / bound - 1;
}

}  // namespace ferry
