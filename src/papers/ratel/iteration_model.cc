#include "papers/ratel/iteration_model.h"

#include <algorithm>

#include "base/check.h"

namespace ferry {
namespace {

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

}  // namespace ferry
