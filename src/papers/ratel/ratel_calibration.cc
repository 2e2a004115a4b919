#include "papers/ratel/ratel_calibration.h"

#include <algorithm>

#include "base/check.h"

namespace ferry {
namespace {

constexpr double kAllUnits = 17;  // 34 tokens hidden bytes per layer
constexpr double kGridStep = 0.5;

double forward_products(const RatelConstants& constants, const RatelCase& c) {
  return 2 * c.parameters * c.tokens / constants.flops;
}

}  // namespace

double interblock_bytes(const RatelCase& c) { return 2 * c.tokens * c.hidden * c.layers; }

double elementwise_seconds(const RatelConstants& constants, const RatelCase& c) {
  return constants.elementwise * c.tokens * c.hidden * c.layers / 1e12;
}

double calibrated_recompute(const RatelConstants& constants, const RatelCase& c, double units) {
  // Of a forward's products, fc2 has 4 of 12 parts in its one unit, the others 8 in 8 units.
  const double products =
      1 - 4.0 / 12 * std::min(units - 1, 1.0) - 8.0 / 12 * std::clamp(units - 2, 0.0, 8.0) / 8;
  const double elementwise = 1 - std::clamp((units - 10) / 7, 0.0, 1.0);
  return products * forward_products(constants, c) +
         elementwise * elementwise_seconds(constants, c);
}

CalibratedStep calibrated_at(const RatelConstants& constants, const RatelCase& c, double units) {
  FERRY_CHECK(units >= 1 && units <= kAllUnits, "block inputs are swapped, and no more than all");
  const double elementwise = elementwise_seconds(constants, c);
  const double recompute = calibrated_recompute(constants, c, units);
  SwapProblem problem;
  problem.costs = ratel_costs(c.parameters, c.tokens, constants.flops);
  problem.costs.forward_compute += elementwise;
  problem.costs.backward_compute += 2 * elementwise;
  problem.costs.drive_wait = constants.host_work * c.parameters;
  problem.rates = constants.rates;
  problem.host_available = c.host_available;

  CalibratedStep step;
  step.units = units;
  step.swapped = units * interblock_bytes(c);
  step.gpu_forward = problem.costs.forward_compute;
  step.gpu_backward = problem.costs.backward_compute + recompute;
  const IterationTime time = iteration_time(problem, step.swapped, recompute);
  step.forward = time.forward;
  step.backward = time.backward;
  step.step = time.total() + c.parallel_wait;
  return step;
}

CalibratedStep calibrated_step(const RatelConstants& constants, const RatelCase& c) {
  CalibratedStep best = calibrated_at(constants, c, 1);
  for (double units = 1 + kGridStep; units <= kAllUnits; units += kGridStep) {
    const CalibratedStep step = calibrated_at(constants, c, units);
    if (step.step < best.step) best = step;
  }
  return best;
}

double optimizer_stage(const RatelConstants& constants, double parameters) {
  return 14 * parameters / constants.rates.read + 14 * parameters / constants.rates.write +
         constants.stage_host_work * parameters;
}

}  // namespace ferry
