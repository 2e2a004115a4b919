// Tasks per second through drive() and the simulator, and how long reading, writing and proving
// such a plan takes. The plan has the shape that the mobius strategy makes.
#include <chrono>
#include <cstdio>
#include <string>

#include "exec/simulator.h"
#include "plan/sample_plans.h"
#include "plan/verify.h"

namespace {

double seconds_of(auto act) {
  const auto start = std::chrono::steady_clock::now();
  act();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

int main() {
  ferry::SampleShape shape;
  shape.layers = 96;
  shape.blocks_per_stage = 8;
  shape.devices = 4;
  shape.micro_batches = 120;  // about 100,000 tasks
  const ferry::Plan plan = sample_mobius(shape);
  constexpr int kSteps = 5;

  std::string text;
  const double printing = seconds_of([&] { text = ferry::to_text(plan); });
  const double parsing = seconds_of([&] { (void)ferry::parse_plan(text, "bench"); });
  bool holds = false;
  const double proving = seconds_of([&] { holds = !ferry::verify(plan); });
  if (!holds) return 1;
  double best = 0;
  ferry::Simulation simulation;
  for (int repeat = 0; repeat < 5; ++repeat) {
    const double seconds = seconds_of([&] { simulation = ferry::simulate(plan, kSteps); });
    best = std::max(best, kSteps * static_cast<double>(plan.tasks.size()) / seconds);
  }
  std::printf("plan_tasks %zu\nplan_resources %zu\n", plan.tasks.size(), plan.resources.size());
  std::printf("print_seconds %.3f\nparse_seconds %.3f\nverify_seconds %.3f\n", printing, parsing,
              proving);
  std::printf("simulated_step_over_busiest %.3f\n",
              simulation.step.count / simulation.busiest.count);
  std::printf("simulator_tasks_per_second %.0f\n", best);
  return 0;
}
