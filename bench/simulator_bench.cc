// Tasks per second through drive() and the simulator, and how long reading, writing and proving
// such a plan takes. The plan has the shape that the mobius strategy makes.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <string>

#include "exec/simulator.h"
#include "plan/sample_plans.h"
#include "plan/verify.h"

namespace {

// Wall time, and the processor's, which other programs on the machine disturb less.
struct Seconds {
  double wall = 0;
  double cpu = 0;
};

Seconds seconds_of(auto act) {
  const auto start = std::chrono::steady_clock::now();
  const std::clock_t cpu_start = std::clock();
  act();
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
          static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC};
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
  const Seconds printing = seconds_of([&] { text = ferry::to_text(plan); });
  const Seconds parsing = seconds_of([&] { (void)ferry::parse_plan(text, "bench"); });
  bool holds = false;
  const Seconds proving = seconds_of([&] { holds = !ferry::verify(plan); });
  if (!holds) return 1;
  Seconds best{1e9, 1e9};
  ferry::Simulation simulation;
  for (int repeat = 0; repeat < 5; ++repeat) {
    const Seconds seconds = seconds_of([&] { simulation = ferry::simulate(plan, kSteps); });
    best = {std::min(best.wall, seconds.wall), std::min(best.cpu, seconds.cpu)};
  }
  std::printf("plan_tasks %zu\nplan_resources %zu\n", plan.tasks.size(), plan.resources.size());
  const auto print = [](const char* what, Seconds seconds) {
    std::printf("%s_seconds %.3f\n%s_cpu_seconds %.3f\n", what, seconds.wall, what, seconds.cpu);
  };
  print("print", printing);
  print("parse", parsing);
  print("verify", proving);
  std::printf("simulated_step_over_busiest %.3f\n",
              simulation.step.count / simulation.busiest.count);
  const double tasks = kSteps * static_cast<double>(plan.tasks.size());
  std::printf("simulator_tasks_per_cpu_second %.0f\n", tasks / best.cpu);
  std::printf("simulator_tasks_per_second %.0f\n", tasks / best.wall);
  return 0;
}
