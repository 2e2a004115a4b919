#include "train/rehearsal.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "base/steady_time.h"
#include "exec/driver.h"
#include "train/block_bench.h"
#include "train/driving_thread.h"
#include "train/home_states.h"
#include "train/places.h"
#include "train/step_runner.h"

namespace ferry {
namespace {

constexpr int kWarmUp = 1, kFewestSteps = 3, kMostSteps = 6;

/// Small random matrices, and norms that scale by 1.
void fill(const ModelSpec& model, HomeStates& states) {
  constexpr std::int64_t kDrawn = 1 << 16;
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.02F);
  std::vector<float> drawn(kDrawn);
  std::ranges::generate(drawn, [&] { return normal(random); });
  const std::vector<float> ones(kDrawn, 1.0F);
  for (const BlockId b : model.blocks.ids()) {
    const auto& params = model.blocks[b].params;
    for (std::size_t i = 0; i < params.size(); ++i) {
      const std::vector<float>& values = params[i].shape.size() == 1 ? ones : drawn;
      const std::int64_t all = params[i].numel();
      for (std::int64_t begin = 0; begin < all; begin += kDrawn) {
        const auto count = static_cast<std::size_t>(std::min(kDrawn, all - begin));
        states.write(StatePart::master, {b, i, begin}, std::span(values).first(count));
      }
      states.clear_moment(StatePart::exp_avg, {b, i}, all);
      states.clear_moment(StatePart::exp_avg_sq, {b, i}, all);
    }
  }
}

StepNumbers numbers(const ModelSpec& model, const Plan& plan, int step) {
  const BatchShape shape{plan.micro_batch_size, plan.sequence};
  StepNumbers numbers = bench_numbers(model, shape, /*documents=*/false);
  numbers.batches.resize(static_cast<std::size_t>(plan.micro_batches), numbers.batches.front());
  numbers.step = step;
  numbers.learned = plan.micro_batches * shape.tokens();
  numbers.loss_scale /= plan.micro_batches;
  numbers.adamw.step = step + 1;
  return numbers;
}

/// Ends a rehearsal that takes long.
class Patience final : public Observer {
 public:
  bool wants_step(int step) override { return step < kFewestSteps || since(start_) < kLongest; }

 private:
  static constexpr Micros kLongest{1.5e6};
  const SteadyTime start_ = std::chrono::steady_clock::now();
};

}  // namespace

Rehearsed rehearse(const ModelSpec& model, const Plan& plan,
                   std::span<const std::string> device_names, const Machine& machine,
                   const KernelFile& kernel_file, int least) {
  const Plan* const only = &plan;
  Places places({&only, 1}, device_names, machine, nobody(), {}, kernel_file);
  StepRunner runner({.model = model,
                     .plan = plan,
                     .places = places,
                     .clip = 1,
                     .update_threads = machine.host.cores,
                     .feed = [&](int step) { return numbers(model, plan, step); }});
  HomeStates states(model, plan, runner.binding());
  fill(model, states);
  Patience patience;
  on_driving_thread(runner.gives_way(), [&] { drive(plan, {0, kMostSteps}, runner, patience); });
  const std::vector<Span> spans = runner.take_spans();
  return {.computing = computing_rate(plan, spans, kWarmUp, least),
          .delays = starting_delays(plan, spans, kWarmUp)};
}

}  // namespace ferry
