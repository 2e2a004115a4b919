// The trainer's runner on simulated devices with the hazard detector on: a plan that verify accepts
// runs without hazards and without waiting for a device; a dependency removed by hand is named.
#include "train/step_runner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <random>

#include "device/simulation.h"
#include "exec/driver.h"
#include "plan/verify.h"
#include "planner/estimate.h"
#include "planner/planner.h"
#include "train/devices.h"
#include "train/home_states.h"
#include "train/places.h"

namespace ferry {
namespace {

constexpr const char* kConfig = R"({
  "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64,
  "intermediate_size": 96, "num_hidden_layers": 6, "num_attention_heads": 4,
  "num_key_value_heads": 2, "vocab_size": 96, "max_position_embeddings": 64,
  "hidden_act": "silu", "rms_norm_eps": 1e-6, "tie_word_embeddings": false})";

constexpr int kMicroBatches = 3;
constexpr int kOpenDevices = 4;

Machine machine(int devices) {
  Machine machine;
  machine.name = "test";
  machine.host.cores = 2;
  machine.host.memory = 4_GiB;
  for (int i = 0; i < devices; ++i) {
    MachineDevice device;
    device.name = "gpu" + std::to_string(i);
    device.index = i;
    device.memory = 1_GiB;
    device.threads = 1;
    machine.devices.push_back(device);
  }
  return machine;
}

/// Every test opens four devices, whatever its plan uses: torch's autograd counts them once.
OpenDevices open_devices(Bytes memory, bool checked) {
  return OpenDevices(
      machine(4),
      {.memory = memory, .threads = 1, .poison = checked, .hazards = checked, .strict = checked});
}

PlanQuestion question(int devices) {
  PlanQuestion question;
  question.model = parse_model_spec(kConfig, "config");
  question.machine = machine(devices);
  question.micro_batches = kMicroBatches;
  question.micro_batch_size = 2;
  question.sequence = 16;
  question.strategy = "mobius";
  question.device_budget = 720_KiB;
  question.host_budget = 1_GiB;
  question.device_budget_source = question.host_budget_source = "the test";
  question.profile =
      estimate_profile(question.model, question.machine, question.precision, {2, 16});
  return question;
}

Plan planned(const PlanQuestion& asked) {
  PlanAnswer answer = make_plan(asked);
  const auto* no = std::get_if<DoesNotFit>(&answer);
  if (no != nullptr)
    throw std::runtime_error("the test's budget is too small: " + to_string(no->need));
  return std::get<Planned>(std::move(answer)).plan;
}

/// Tied, so that weights and sums cross between devices too.
PlanQuestion pipeline_question(const char* strategy, int devices) {
  PlanQuestion asked = question(devices);
  std::string config = kConfig;
  config.replace(config.find("\"tie_word_embeddings\": false"), 28,
                 "\"tie_word_embeddings\": true");
  asked.model = parse_model_spec(config, "config");
  asked.profile = estimate_profile(asked.model, asked.machine, asked.precision, {2, 16});
  asked.strategy = strategy;
  asked.device_budget = 64_MiB;
  asked.clips = devices != 4;
  return asked;
}

/// Small random weights, the same in every run.
void fill(const ModelSpec& model, HomeStates& states) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 0.1F);
  for (BlockId b = 0; b < static_cast<BlockId>(model.blocks.size()); ++b) {
    const auto& params = model.blocks[static_cast<std::size_t>(b)].params;
    for (std::size_t i = 0; i < params.size(); ++i) {
      std::vector<float> values(static_cast<std::size_t>(params[i].numel()));
      std::ranges::generate(values, [&] { return normal(random); });
      states.write(StatePart::master, b, i, values);
      std::ranges::fill(values, 0.0F);
      states.write(StatePart::exp_avg, b, i, values);
      states.write(StatePart::exp_avg_sq, b, i, values);
    }
  }
}

StepNumbers numbers(int step) {
  StepNumbers numbers{
      .step = step, .batches = {}, .learned = 96, .loss_scale = 1.0 / 96, .adamw = {}};
  numbers.adamw.lr = 1e-3;
  numbers.adamw.step = step + 1;
  for (int m = 0; m < kMicroBatches; ++m) {
    Batch batch;
    for (int i = 0; i < 32; ++i) {
      batch.ids.push_back((7 * i + m + step) % 96);
      batch.labels.push_back((7 * (i + 1) + m + step) % 96);
    }
    numbers.batches.push_back(batch);
  }
  return numbers;
}

struct Outcome {
  std::vector<double> losses;
  std::vector<Hazard> hazards;
  long host_syncs = 0;                 // in the last two steps, over all devices
  std::map<std::string, long> drains;  // operators that made the host wait
};

/// Collects the loss of each step, and counts host synchronisations after a warm-up.
class Recorder final : public Observer {
 public:
  Recorder(const StepRunner& runner, Outcome& outcome) : runner_(runner), outcome_(outcome) {}

  void step_finished(int step) override {
    outcome_.losses.push_back(runner_.result(step).loss);
    if (step == 1) simdev_reset_stats();
  }

 private:
  const StepRunner& runner_;
  Outcome& outcome_;
};

/// A plan on four open devices, with weights in place. `checked`: with poison, the hazard detector
/// and strict mode.
struct Training {
  Training(const PlanQuestion& asked, const Plan& given, bool checked)
      : plan(&given),
        devices(open_devices(asked.device_budget, checked)),
        places({&plan, 1}, devices.names(), 1),
        runner({.model = asked.model,
                .plan = given,
                .places = places,
                .clip = 1.0,
                .update_threads = 1,
                .feed = numbers}),
        states(asked.model, given, runner.binding()) {
    fill(asked.model, states);
  }

  const Plan* const plan;
  const OpenDevices devices;
  Places places;
  StepRunner runner;
  HomeStates states;
};

Outcome run(const PlanQuestion& asked, const Plan& plan) {
  Outcome outcome;
  Training training(asked, plan, /*checked=*/true);
  Recorder recorder(training.runner, outcome);
  drive(plan, {0, 4}, training.runner, recorder);
  for (int device = 0; device < kOpenDevices; ++device) {
    const SimStats stats = simdev_stats(device);
    outcome.host_syncs += stats.host_syncs;
    for (const auto& [name, count] : stats.drains) outcome.drains[name] += count;
  }
  outcome.hazards = simdev_hazards();
  return outcome;
}

/// How often a host task waits for events of device tasks, per step: the only host waits there are.
long host_waits(const Plan& plan) {
  const auto on_host = [&](TaskId id) {
    const auto& task = plan.tasks[static_cast<std::size_t>(id)];
    return plan.resources[static_cast<std::size_t>(task.resource)].kind == ResourceKind::host;
  };
  long waits = 0;
  for (TaskId id = 0; id < static_cast<TaskId>(plan.tasks.size()); ++id) {
    if (!on_host(id)) continue;
    const Task& task = plan.tasks[static_cast<std::size_t>(id)];
    waits += std::ranges::count_if(task.after, [&](TaskId other) { return !on_host(other); });
    waits +=
        std::ranges::count_if(task.after_previous, [&](TaskId other) { return !on_host(other); });
  }
  return waits;
}

class StepRunnerOnDevices : public testing::TestWithParam<int> {};

TEST_P(StepRunnerOnDevices, AVerifiedPlanRunsWithoutHazards) {
  const PlanQuestion asked = question(GetParam());
  const Plan plan = planned(asked);
  const Outcome outcome = run(asked, plan);
  for (const Hazard& hazard : outcome.hazards) ADD_FAILURE() << to_string(hazard);
  ASSERT_EQ(outcome.losses.size(), 4U);
  EXPECT_LT(outcome.losses.back(), outcome.losses.front());
}

TEST(StepRunnerOfPipelines, AVerifiedPlanRunsWithoutHazards) {
  for (const char* strategy : {"gpipe", "1f1b", "interleaved", "mixed-pipe"}) {
    for (const int devices : {2, 4}) {
      SCOPED_TRACE(strategy);
      const PlanQuestion asked = pipeline_question(strategy, devices);
      const Plan plan = planned(asked);
      const Outcome outcome = run(asked, plan);
      for (const Hazard& hazard : outcome.hazards) ADD_FAILURE() << to_string(hazard);
      ASSERT_EQ(outcome.losses.size(), 4U);
      EXPECT_LT(outcome.losses.back(), outcome.losses.front());
      EXPECT_TRUE(outcome.drains.empty());
    }
  }
}

// In the steady state the host waits for no stream: operators never drain one, and host tasks start
// when the events of what they read are done, so that their waits return at once.
TEST_P(StepRunnerOnDevices, TheHostSynchronisesOnlyForWhatHostTasksRead) {
  const PlanQuestion asked = question(GetParam());
  const Plan plan = planned(asked);
  const Outcome outcome = run(asked, plan);
  EXPECT_TRUE(outcome.drains.empty()) << outcome.drains.begin()->first;
  EXPECT_LE(outcome.host_syncs, 2 * host_waits(plan));
  EXPECT_GT(outcome.host_syncs, 0);
}

INSTANTIATE_TEST_SUITE_P(Devices, StepRunnerOnDevices, testing::Values(1, 2, 4));

TEST(StepRunner, ADroppedDependencyIsReportedWithTaskSlotAndStream) {
  const PlanQuestion asked = question(2);
  Plan plan = planned(asked);
  const auto task = std::ranges::find(plan.tasks, std::string("F.3.0"), &Task::name);
  ASSERT_NE(task, plan.tasks.end());
  std::erase_if(task->after, [&](TaskId id) {
    const Task& other = plan.tasks[static_cast<std::size_t>(id)];
    return other.kind == TaskKind::copy && other.name.starts_with("W.3");
  });
  ASSERT_TRUE(verify(plan).has_value());  // the planner's proof says so too

  const Outcome outcome = run(asked, plan);
  const auto named = std::ranges::find_if(outcome.hazards, [](const Hazard& hazard) {
    const std::string text = to_string(hazard);
    return text.find("F.3.0") != std::string::npos && text.find("W.3@gpu") != std::string::npos &&
           text.find("compute") != std::string::npos &&
           text.find("weights_up") != std::string::npos;
  });
  EXPECT_NE(named, outcome.hazards.end())
      << (outcome.hazards.empty() ? "no hazard at all" : to_string(outcome.hazards.front()));
}

TEST(StepRunner, AFailedCopyIsReportedWithItsTaskAndNothingStartsAfterIt) {
  const PlanQuestion asked = question(1);
  const Plan plan = planned(asked);
  Training training(asked, plan, /*checked=*/false);
  Observer nobody;
  simdev_fail_copy(20);
  try {
    drive(plan, {0, 2}, training.runner, nobody);
    FAIL() << "the failed copy went unnoticed";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("gpu0"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace ferry
