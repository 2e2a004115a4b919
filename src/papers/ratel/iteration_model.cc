#include "papers/ratel/iteration_model.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace ferry {
namespace {

double all_recomputed(const std::vector<SwapTensor>& tensors) {
  double sum = 0;
  for (const SwapTensor& tensor : tensors) sum += tensor.recompute;
  return sum;
}

double beyond_host(const SwapProblem& problem, double swapped) {
  return std::max(0.0, swapped - problem.host_available);  // Eq. (3)
}

}  // namespace

StepCosts ratel_costs(double parameters, double tokens, double flops_per_second) {
  StepCosts costs;
  costs.forward_compute = 2 * parameters * tokens / flops_per_second;
  costs.backward_compute = 2 * costs.forward_compute;
  costs.forward_upload = costs.forward_read = 2 * parameters;
  costs.backward_upload = costs.backward_download = 2 * parameters;
  costs.backward_read = costs.backward_written = 14 * parameters;
  return costs;
}

IterationTime iteration_time(const SwapProblem& problem, double swapped, double recompute) {
  const StepCosts& costs = problem.costs;
  const StreamRates& rates = problem.rates;
  FERRY_CHECK(rates.link > 0 && rates.read > 0 && rates.write > 0, "rates are positive");
  const double spilled = beyond_host(problem, swapped);
  IterationTime time;
  time.forward = std::max({costs.forward_compute, swapped / rates.link,  // Eq. (2), (4)
                           costs.forward_upload / rates.link,
                           costs.forward_read / rates.read + spilled / rates.write});
  time.backward =
      std::max({costs.backward_compute + recompute, costs.backward_download / rates.link,  // (5)
                (costs.backward_upload + swapped) / rates.link,
                (costs.backward_read + spilled) / rates.read +
                    costs.backward_written / rates.write + costs.drive_wait});
  return time;
}

std::vector<std::size_t> swap_order(const std::vector<SwapTensor>& tensors) {
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const SwapTensor& left = tensors[a];
    const SwapTensor& right = tensors[b];
    if (left.must_be_swapped != right.must_be_swapped) return left.must_be_swapped;
    if (left.must_be_swapped) return false;
    return left.recompute / left.bytes > right.recompute / right.bytes;  // Eq. (6)
  });
  return order;
}

double recompute_time(const std::vector<SwapTensor>& tensors, double swapped) {
  double left = all_recomputed(tensors);
  for (const std::size_t i : swap_order(tensors)) {
    const double share = std::clamp(swapped / tensors[i].bytes, 0.0, 1.0);
    left -= share * tensors[i].recompute;
    swapped -= tensors[i].bytes;
    if (swapped <= 0) break;
  }
  return std::max(0.0, left);
}

SwapChoice choose_swaps(const SwapProblem& problem) {
  const std::vector<SwapTensor>& tensors = problem.tensors;
  SwapChoice best;
  double bytes = 0;
  double recompute = all_recomputed(tensors);
  best.recompute = recompute;
  best.time = iteration_time(problem, 0, recompute);
  for (const std::size_t i : swap_order(tensors)) {
    FERRY_CHECK(tensors[i].bytes > 0 && tensors[i].recompute >= 0, "a tensor has a size");
    bytes += tensors[i].bytes;
    recompute = std::max(0.0, recompute - tensors[i].recompute);
    const IterationTime time = iteration_time(problem, bytes, recompute);
    if (!tensors[i].must_be_swapped && time.total() >= best.time.total()) break;
    best.swapped.push_back(i);
    best.bytes = bytes;
    best.recompute = recompute;
    best.time = time;
  }
  best.drive_bytes = beyond_host(problem, best.bytes);
  best.host_bytes = std::min(best.bytes, problem.host_available);
  return best;
}

std::vector<SwapTensor> gpt_swap_tensors(int layers, double hidden, double tokens,
                                         double flops_per_second, double elementwise) {
  const double unit = 2 * hidden * tokens;
  // A product with `squares` h^2 weights is 2 squares h^2 FLOPs per token.
  const auto product = [&](double squares) {
    return 2 * squares * hidden * hidden * tokens / flops_per_second;
  };
  std::vector<SwapTensor> tensors;
  for (int layer = 0; layer < layers; ++layer) {
    tensors.push_back({"input", layer, unit, 0, true});
    tensors.push_back({"fc2", layer, unit, product(4), false});
    tensors.push_back({"projection", layer, unit, product(1), false});
    tensors.push_back({"qkv", layer, 3 * unit, product(3), false});
    tensors.push_back({"fc1", layer, 4 * unit, product(4), false});
    tensors.push_back({"elementwise", layer, 7 * unit, elementwise, false});
  }
  return tensors;
}

}  // namespace ferry
