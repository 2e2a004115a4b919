// The trainer's runner on simulated devices with the hazard detector on: a plan that verify accepts
// runs without hazards and without waiting for a device; a dependency removed by hand is named.
// Keeping and swapping what forward computed changes no number.
#include "train/step_runner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <fstream>
#include <future>
#include <random>
#include <thread>

#include "base/error.h"
#include "device/simulation.h"
#include "exec/driver.h"
#include "model/block.h"
#include "plan/verify.h"
#include "planner/costs/estimate.h"
#include "simdev/sim_machine.h"
#include "train/kernels_on_cpu.h"
#include "train/step_kernels.h"
#include "training_sample.h"

namespace ferry {
namespace {

/// How often a host task waits for events of device tasks, per step: the only host waits there are.
long host_waits(const Plan& plan) {
  const auto on_host = [&](TaskId id) {
    const auto& task = plan.tasks[id];
    return plan.resources[task.resource].kind == ResourceKind::host;
  };
  long waits = 0;
  for (const TaskId id : plan.tasks.ids()) {
    if (!on_host(id)) continue;
    const Task& task = plan.tasks[id];
    waits += std::ranges::count_if(task.after, [&](TaskId other) { return !on_host(other); });
    waits +=
        std::ranges::count_if(task.after_previous, [&](TaskId other) { return !on_host(other); });
  }
  return waits;
}

class StepRunnerOnDevices : public testing::TestWithParam<int> {};

TEST_P(StepRunnerOnDevices, AVerifiedPlanRunsWithoutHazards) {
  const PlanQuestion asked = training_question(GetParam());
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
      const PlanQuestion asked = tied_question(strategy, devices);
      const Plan plan = planned(asked);
      const Outcome outcome = run(asked, plan);
      for (const Hazard& hazard : outcome.hazards) ADD_FAILURE() << to_string(hazard);
      ASSERT_EQ(outcome.losses.size(), 4U);
      EXPECT_LT(outcome.losses.back(), outcome.losses.front());
      EXPECT_TRUE(outcome.drains.empty());
    }
  }
}

// Pipelines keep weights, states and sums on their devices, which round as they update.
TEST(StepRunnerOfPipelines, RoundedSumsGiveTheBitsOfOneDevice) {
  for (const char* strategy : {"1f1b", "interleaved", "mixed-pipe"}) {
    SCOPED_TRACE(strategy);
    PlanQuestion asked = tied_question(strategy, 2);
    asked.gradients = Precision::bf16;
    const Outcome outcome = run(asked, planned(asked));
    asked.strategy = "resident";
    const Outcome resident = run(asked, planned(asked));
    EXPECT_EQ(outcome.losses, resident.losses);
    EXPECT_EQ(outcome.weights, resident.weights);
  }
}

// Threads that launch run ahead of each other as they like; events order what they launch. Logical
// devices on one physical device share its thread.
TEST(StepRunnerOfPipelines, AThreadPerDeviceGivesTheBitsOfOneThread) {
  constexpr std::array kStrategies = {"mobius", "gpipe", "1f1b", "interleaved", "mixed-pipe"};
  std::mt19937 random(14);
  const auto below = [&](std::size_t end) { return random() % end; };
  for (int i = 0; i < 10; ++i) {
    const std::string strategy = kStrategies[below(kStrategies.size())];
    const int devices = 2 << below(2), micro_batches = static_cast<int>(3 + below(4));
    SCOPED_TRACE(strategy + ", " + std::to_string(devices) + " devices, " +
                 std::to_string(micro_batches) + " micro-batches");
    const PlanQuestion asked = strategy == "mobius"
                                   ? training_question(devices, micro_batches)
                                   : tied_question(strategy.c_str(), devices, micro_batches);
    const Plan plan = planned(asked);
    const Outcome together = run(asked, plan, {}, {.on_one_device = true});
    const Outcome apart = run(asked, plan);
    for (const Hazard& hazard : together.hazards) ADD_FAILURE() << to_string(hazard);
    for (const Hazard& hazard : apart.hazards) ADD_FAILURE() << to_string(hazard);
    ASSERT_EQ(apart.losses.size(), 4U);
    EXPECT_EQ(apart.losses, together.losses);
    EXPECT_EQ(apart.weights, together.weights);
    EXPECT_LE(apart.host_syncs, 2 * host_waits(plan));
    EXPECT_TRUE(apart.drains.empty());
  }
}

// In the steady state the host waits for no stream: operators never drain one, and host tasks start
// when the events of what they read are done, so that their waits return at once.
TEST_P(StepRunnerOnDevices, TheHostSynchronisesOnlyForWhatHostTasksRead) {
  const PlanQuestion asked = training_question(GetParam());
  const Plan plan = planned(asked);
  const Outcome outcome = run(asked, plan);
  EXPECT_TRUE(outcome.drains.empty()) << outcome.drains.begin()->first;
  EXPECT_LE(outcome.host_syncs, 2 * host_waits(plan));
  EXPECT_GT(outcome.host_syncs, 0);
}

INSTANTIATE_TEST_SUITE_P(Devices, StepRunnerOnDevices, testing::Values(1, 2, 4));

TEST(StepRunner, ADroppedDependencyIsReportedWithTaskSlotAndStream) {
  const PlanQuestion asked = training_question(2);
  Plan plan = planned(asked);
  const auto task = std::ranges::find(plan.tasks, std::string("F.3.0"), &Task::name);
  ASSERT_NE(task, plan.tasks.end());
  erase_if(task->after, [&](TaskId id) {
    const Task& other = plan.tasks[id];
    return other.kind == TaskKind::copy && other.name.starts_with("W.3");
  });
  ASSERT_TRUE(verify(plan).has_value());  // the planner's proof says so too

  for (const bool together : {false, true}) {
    const std::vector<Hazard> hazards = hazards_of(asked, plan, {.on_one_device = together});
    const auto named = std::ranges::find_if(hazards, [](const Hazard& hazard) {
      const std::string text = to_string(hazard);
      return text.find("F.3.0") != std::string::npos && text.find("W.3@gpu") != std::string::npos &&
             text.find("compute") != std::string::npos &&
             text.find("weights_up") != std::string::npos;
    });
    EXPECT_NE(named, hazards.end())
        << (hazards.empty() ? "no hazard at all" : to_string(hazards.front()));
  }
}

TEST(StepRunner, AFailedCopyIsReportedWithItsTaskAndNothingStartsAfterIt) {
  const PlanQuestion asked = training_question(1);
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

TEST(StepRunner, ATimeThatADeviceDoesNotTellIsAnErrorOfItsTask) {
  const PlanQuestion asked = training_question(1);
  const Plan plan = planned(asked);
  Training training(asked, plan, /*checked=*/false);
  Observer nobody;
  drive(plan, {0, 1}, training.runner, nobody);
  simdev_fail_time(5);
  try {
    drive(plan, {1, 1}, training.runner, nobody);
    FAIL() << "a time that is not known went unnoticed";
  } catch (const ResourceError& error) {
    const std::string text = error.what();
    EXPECT_TRUE(text.starts_with("task ")) << text;
    EXPECT_NE(text.find(" on gpu0."), std::string::npos) << text;
    EXPECT_NE(text.find("has no time"), std::string::npos) << text;
  }
}

long host_syncs(int devices) {
  long all = 0;
  for (int device = 0; device < devices; ++device) all += simdev_stats(device).host_syncs;
  return all;
}

// The clock's life is zero in these tests: it is renewed in every second step, while tasks are in
// flight.
TEST(StepRunner, SpansKeepTheirOrderWhileTheClockIsRenewed) {
  const PlanQuestion asked = training_question(2);
  const Plan plan = planned(asked);
  Training training(asked, plan, /*checked=*/false);
  Observer nobody;
  drive(plan, {0, 8}, training.runner, nobody);
  EXPECT_GE(training.runner.clock_renewals(), 4);
  IdVector<ResourceId, Micros> ends(plan.resources.size());
  const std::vector<Span> spans = training.runner.take_spans();
  EXPECT_EQ(spans.size(), 8 * plan.tasks.size());
  for (const Span& span : spans) {
    Micros& end = ends[plan.tasks[span.run.task].resource];
    EXPECT_GE(span.start, end) << plan.tasks[span.run.task].name;
    EXPECT_GE(span.end, span.start) << plan.tasks[span.run.task].name;
    EXPECT_LT(span.end - span.start, from_seconds(60)) << plan.tasks[span.run.task].name;
    end = span.end;
  }
}

TEST(StepRunner, PagesThatCannotBeLockedCostWaitsAndNoBits) {
  const PlanQuestion asked = training_question(1);
  const Plan plan = planned(asked);
  std::vector<double> losses[2];
  long syncs[2] = {};
  Words words;
  for (const bool refused : {false, true}) {
    const auto lockable = refused ? std::optional(4_KiB) : std::nullopt;
    Training training(asked, plan, /*checked=*/true, {}, {.lockable = lockable}, words);
    Losses watched(training.runner);
    drive(plan, {0, 4}, training.runner, watched);
    losses[refused] = watched.found;
    syncs[refused] = host_syncs(1);
    EXPECT_TRUE(simdev_hazards().empty());
  }
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_GT(syncs[1], syncs[0]);
  ASSERT_EQ(words.said.size(), 1U);
  EXPECT_NE(words.said[0].find("page-locking"), std::string::npos) << words.said[0];
  EXPECT_NE(words.said[0].find("4.0 KiB may be locked"), std::string::npos) << words.said[0];
}

/// Holds a device's compute stream still until `may_go` says so.
class HeldStream {
 public:
  HeldStream(Training& training, int device, const std::function<bool()>& may_go) {
    const Plan& plan = *training.plan;
    const auto compute = std::ranges::find_if(plan.resources, [&](const Resource& resource) {
      return resource.kind == ResourceKind::compute &&
             plan.places[resource.place].name == "gpu" + std::to_string(device);
    });
    const c10::Stream stream = training.places[compute->place].device->stream(compute->name);
    SimMachine& machine = sim_machine();
    machine.enqueue(machine.stream(device, stream.id()), "gate", {},
                    [this] { gate_.get_future().wait(); });
    opener_ = std::thread([this, may_go] {
      while (!may_go()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      gate_.set_value();
    });
  }
  ~HeldStream() { opener_.join(); }
  HeldStream(const HeldStream&) = delete;
  HeldStream& operator=(const HeldStream&) = delete;

 private:
  std::promise<void> gate_;
  std::thread opener_;
};

/// How often a full stream stopped the thread that launches `held_step`, while its compute stream
/// stands still until nothing more is enqueued, or until it is full.
long launch_waits(long most_launches, int held_step) {
  const PlanQuestion asked = training_question(1, 16);
  const Plan plan = planned(asked);
  const Conditions conditions{.launch_queue = 400, .most_launches = most_launches};
  Training training(asked, plan, /*checked=*/false, {}, conditions);
  Observer nobody;
  if (held_step > 0) drive(plan, {0, held_step}, training.runner, nobody);
  const HeldStream held(training, 0, [before = -1L]() mutable {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    const SimStats now = simdev_stats(0);
    return now.launch_waits > 0 || std::exchange(before, now.async_ops) == now.async_ops;
  });
  drive(plan, {held_step, 2}, training.runner, nobody);
  return simdev_stats(0).launch_waits;
}

// CUDA stops its caller near a thousand launches, and with it the device's other streams.
TEST(StepRunner, LaunchesNoMoreThanADeviceTakesAhead) {
  EXPECT_EQ(launch_waits(200, 0), 0) << "while operators are counted";
  EXPECT_EQ(launch_waits(200, 1), 0);
  EXPECT_GT(launch_waits(1'000'000, 1), 0) << "nothing was in the way, so this test shows nothing";
}

/// Counts finished tasks of a step that do not wait for what a device computes.
class Independent final : public Observer {
 public:
  Independent(const Plan& plan, int device) : plan_(plan), device_("gpu" + std::to_string(device)) {
    for (const TaskId id : plan.tasks.ids()) all_ += counts(id) ? 1 : 0;
  }
  void finished(TaskRun run) override { finished_ += counts(run.task) ? 1 : 0; }

  bool are_done() const { return finished_ == all_; }

 private:
  bool counts(TaskId id) const {
    const Task& task = plan_.tasks[id];
    const Place& place = plan_.places[plan_.resources[task.resource].place];
    return task.kind == TaskKind::load || (task.kind == TaskKind::forward && place.name == device_);
  }

  const Plan& plan_;
  const std::string device_;
  int all_ = 0;
  std::atomic<int> finished_ = 0;
};

// The second GPU stands still, and its launching thread with it, as its stream is full. The first
// one runs its part of all micro-batches forward all the same, and their tokens are loaded.
TEST(StepRunner, ADeviceThatTakesNoMoreLaunchesHoldsUpNoOther) {
  const PlanQuestion asked = tied_question("gpipe", 2, 8);
  const Plan plan = planned(asked);
  const Conditions conditions{.launch_queue = 400, .most_launches = 1'000'000};
  Training training(asked, plan, /*checked=*/false, {}, conditions);
  Observer nobody;
  drive(plan, {0, 1}, training.runner, nobody);
  Independent watched(plan, 0);
  bool both = false;
  {
    const HeldStream held(training, 1, [&, patience = 30'000]() mutable {
      both = watched.are_done() && simdev_stats(1).launch_waits > 0;
      return both || --patience == 0;
    });
    drive(plan, {1, 1}, training.runner, watched);
  }
  EXPECT_TRUE(both);
}

// The kernels of a GPU in a whole step, with the driver's part played on the CPU. Norms are summed
// in another order than torch's, so clipping may differ in a last bit.
TEST(StepRunner, KernelsOfOurOwnTrainAsTorchsOperationsDo) {
  PlanQuestion asked = tied_question("resident", 1);
  const Plan plan = planned(asked);
  std::vector<double> losses[2];
  std::vector<float> weights[2];
  for (const bool fused : {false, true}) {
    Training training(asked, plan, /*checked=*/false);
    Device& device = *training.places[plan.resources.front().place].device;
    BeforeKernel wait = [&] { device.synchronize(); };
    if (fused) {
      training.places[plan.resources.front().place].kernels = std::make_unique<StepKernels>(
          std::make_unique<KernelLibrary>(cpu_driver(), 0, "code"), [&] { return &wait; });
    }
    Losses watched(training.runner);
    drive(plan, {0, 4}, training.runner, watched);
    losses[fused] = watched.found;
    weights[fused] = weights_of(asked.model, training.states);
  }
  ASSERT_EQ(losses[0].size(), 4U);
  for (std::size_t step = 0; step < losses[0].size(); ++step) {
    EXPECT_NEAR(losses[0][step], losses[1][step], 1e-5) << step;
  }
  EXPECT_LT(losses[1].back(), losses[1].front());
  float largest = 0;
  for (std::size_t i = 0; i < weights[0].size(); ++i) {
    largest = std::max(largest, std::abs(weights[0][i] - weights[1][i]));
  }
  EXPECT_LT(largest, 1e-4F);
}

/// What a block's forward keeps of a batch, as the blocks count it: the worst of none and one
/// document per token.
Bytes counted(const ModelSpec& model, const BlockSpec& block, BatchShape shape,
              at::ScalarType type) {
  std::vector<at::Tensor> weights;
  for (const ParamSpec& param : block.params) weights.push_back(at::ones(param.shape, type));
  const at::Tensor x = at::ones({shape.batch, shape.time, model.hidden}, type);
  const std::vector<std::int64_t> ones(static_cast<std::size_t>(shape.tokens()), 1);
  return std::max(forward_saving(model, block, x, weights, {}).bytes,
                  forward_saving(model, block, x, weights, {}, {.documents = ones}).bytes);
}

enum class Keeping { on_device, swapped };

/// The plan with K.b.m for every block that can: in slots behind all others, and with swapping also
/// on the host, brought down and up again into another slot by queues of their own.
class KeepingPlan {
 public:
  KeepingPlan(Plan plan, const ModelSpec& model, Keeping keeping) : plan_(std::move(plan)) {
    for (const PlaceId id : plan_.places.ids()) {
      ends_.push_back(slots_end(plan_, id));
      plan_.places[id].budget = 1_GiB;
    }
    for (const TaskId forward : plan_.tasks.ids()) {  // of the plan as it came
      const Task task = at(forward);
      if (task.kind != TaskKind::forward) continue;
      const BlockSpec& block = model.blocks[task.block];
      if (!can_save(block)) continue;
      const TaskId backward = backward_of(task);
      if (!backward.valid()) continue;
      keep(forward, backward, counted(model, block, {2, 16}, at::kFloat), keeping);
    }
  }

  Plan take() { return std::move(plan_); }

 private:
  Task& at(TaskId id) { return plan_.tasks[id]; }

  TaskId backward_of(const Task& forward) const {
    const auto found = std::ranges::find_if(plan_.tasks, [&](const Task& task) {
      return task.kind == TaskKind::backward && task.block == forward.block &&
             task.micro_batch == forward.micro_batch && task.resource == forward.resource;
    });
    return found == plan_.tasks.end() ? TaskId() : plan_.tasks.id_of(found);
  }

  InstanceId instance(ValueId value, PlaceId place) {
    Bytes& end = ends_[place];
    end = round_up(end, 512_B);
    const Bytes offset = end;
    end += plan_.values[value].bytes;
    return plan_.instances.add({value, place, offset, false});
  }

  void keep(TaskId forward, TaskId backward, Bytes bytes, Keeping keeping) {
    const ValueId value =
        plan_.values.add({ValueKind::saved, at(forward).block, at(forward).micro_batch, bytes});
    const PlaceId device = plan_.resources[at(forward).resource].place;
    const InstanceId made = instance(value, device);
    at(forward).writes.push_back(made);
    if (keeping == Keeping::on_device) {
      at(backward).reads.push_back(made);
      return;
    }
    const PlaceId host =
        plan_.places.id_of(std::ranges::find(plan_.places, PlaceKind::host, &Place::kind));
    const InstanceId resting = instance(value, host), back = instance(value, device);
    const TaskId down = copy("down", device, made, resting), up = copy("up", device, resting, back);
    at(backward).reads.push_back(back);
    at(down).after = {forward};
    at(up).after = {down};
    at(backward).after.push_back(up);
    at(forward).after_previous.push_back(down);
    at(down).after_previous = {up};
    at(up).after_previous = {backward};
  }

  TaskId copy(const std::string& way, PlaceId device, InstanceId from, InstanceId to) {
    const std::string queue = plan_.places[device].name + ".swap_" + way;
    auto found = std::ranges::find(plan_.resources, queue, &Resource::name);
    if (found == plan_.resources.end()) {
      plan_.resources.push_back({queue, ResourceKind::copy, device, 1e9, {}, {}});
      found = plan_.resources.end() - 1;
    }
    const Value& value = plan_.values[plan_.instances[from].value];
    Task task;
    task.name = way + "." + value_name(value);
    task.kind = TaskKind::copy;
    task.resource = plan_.resources.id_of(found);
    task.reads = {from};
    task.writes = {to};
    task.bytes = value.bytes;
    return plan_.tasks.add(std::move(task));
  }

  Plan plan_;
  IdVector<PlaceId, Bytes> ends_;  // of the slots
};

// No number changes, no hazard appears, the host waits for nothing, and no kept block's product is
// run twice.
TEST(StepRunnerThatKeeps, GivesTheBitsOfRecompute) {
  for (const char* strategy : {"resident", "1f1b"}) {
    PlanQuestion asked = tied_question(strategy, 2);
    asked.clips = true;
    asked.options.activations = ActivationRule::recompute;
    const Plan plan = planned(asked);
    const Outcome expected = run(asked, plan);
    ASSERT_EQ(expected.losses.size(), 4U);
    for (const Keeping keeping : {Keeping::on_device, Keeping::swapped}) {
      SCOPED_TRACE(std::string(strategy) + (keeping == Keeping::swapped ? " swapped" : ""));
      const Plan keeps = KeepingPlan(plan, asked.model, keeping).take();
      const auto broken = verify(keeps);
      ASSERT_FALSE(broken.has_value()) << broken->message;
      const Outcome found = run(asked, keeps);
      for (const Hazard& hazard : found.hazards) ADD_FAILURE() << to_string(hazard);
      EXPECT_EQ(found.losses, expected.losses);
      EXPECT_EQ(found.weights, expected.weights);
      EXPECT_TRUE(found.drains.empty()) << found.drains.begin()->first;
      EXPECT_LE(found.host_syncs, 2 * host_waits(keeps));
    }
  }
}

TEST(StepRunnerThatKeeps, ASlotThatIsTooSmallIsRefused) {
  const PlanQuestion asked = tied_question("resident", 1);
  Plan plan = KeepingPlan(planned(asked), asked.model, Keeping::on_device).take();
  for (Value& value : plan.values) {
    if (value.kind == ValueKind::saved) value.bytes = value.bytes - 4096_B;
  }
  Training training(asked, plan, /*checked=*/false);
  Observer nobody;
  EXPECT_THROW(drive(plan, {0, 1}, training.runner, nobody), ResourceError);
}

// Whoever waits for the event of the failed task would wait for ever, and what is behind it would
// compute with what is not there.
TEST(StepRunnerThatKeeps, AFailedLaunchIsReportedByNameAndStopsEveryDevice) {
  const PlanQuestion asked = tied_question("1f1b", 2);
  Plan plan = KeepingPlan(planned(asked), asked.model, Keeping::on_device).take();
  const auto fails = std::ranges::find_if(plan.tasks, [&](const Task& task) {
    return task.kind == TaskKind::forward && plan.resources[task.resource].name == "gpu1.compute" &&
           plan.values[plan.instances[task.writes.back()].value].kind == ValueKind::saved;
  });
  ASSERT_NE(fails, plan.tasks.end());
  Bytes& slot = plan.values[plan.instances[fails->writes.back()].value].bytes;
  slot = slot - 4096_B;
  for (const bool together : {false, true}) {
    Training training(asked, plan, /*checked=*/false, {}, {.on_one_device = together});
    Observer nobody;
    try {
      drive(plan, {0, 2}, training.runner, nobody);
      FAIL() << "the slot that is too small went unnoticed";
    } catch (const ResourceError& error) {
      EXPECT_TRUE(std::string(error.what())
                      .starts_with("task " + fails->name + " on gpu1.compute: what forward keeps"))
          << error.what();
    }
    for (const TaskId id : plan.tasks.ids()) {
      if (plan.tasks[id].kind != TaskKind::backward) continue;
      EXPECT_EQ(training.runner.last_runs()[id], -1) << plan.tasks[id].name;
    }
  }
}

// The planner sizes K.b.m without torch. On the CPU it is exact: the measured profile's bytes.
TEST(Estimate, SavedBytesAreWhatTheBlocksCount) {
  const BatchShape shape{.batch = 2, .time = 24};
  std::string qwen3 = kSampleConfig;
  qwen3.replace(qwen3.find("\"llama\""), 7, "\"qwen3\"");
  const std::string gpt2 = R"({"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4,
                               "n_positions": 64, "vocab_size": 96})";
  for (const std::string& config : {std::string(kSampleConfig), qwen3, gpt2}) {
    const ModelSpec model = parse_model_spec(config, "config");
    for (const Precision precision : {Precision::fp32, Precision::bf16}) {
      const Profile profile = estimate_profile(model, sample_machine(1), precision, shape);
      for (const std::size_t b : {1U, 2U}) {
        const auto type = precision == Precision::bf16 ? at::kBFloat16 : at::kFloat;
        const BlockProfile& costs = profile.blocks[profile.chain[b]];
        EXPECT_EQ(costs.saved, counted(model, model.blocks[b], shape, type)) << costs.key;
        EXPECT_LT(costs.saved_backward, costs.backward);
      }
    }
  }
}

}  // namespace
}  // namespace ferry
