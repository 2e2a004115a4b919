#include "training_sample.h"

#include <algorithm>
#include <random>
#include <stdexcept>

#include "planner/costs/estimate.h"
#include "train/divergence.h"

namespace ferry {
namespace {

PlanQuestion question_of(const std::string& config, int devices, int micro_batches) {
  PlanQuestion question;
  question.model = parse_model_spec(config, "config");
  question.machine = sample_machine(devices);
  question.micro_batches = micro_batches;
  question.micro_batch_size = 2;
  question.sequence = 16;
  question.host_budget = 1_GiB;
  question.host_budget_source = "the test";
  question.profile =
      estimate_profile(question.model, question.machine, question.precision, {2, 16});
  return question;
}

/// Small random weights, the same in every run.
void fill(const ModelSpec& model, HomeStates& states) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 0.1F);
  for (const BlockId b : model.blocks.ids()) {
    const auto& params = model.blocks[b].params;
    for (std::size_t i = 0; i < params.size(); ++i) {
      std::vector<float> values(static_cast<std::size_t>(params[i].numel()));
      std::ranges::generate(values, [&] { return normal(random); });
      states.write(StatePart::master, {b, i}, values);
      for (const StatePart moment : {StatePart::exp_avg, StatePart::exp_avg_sq}) {
        states.clear_moment(moment, {b, i}, params[i].numel());
      }
    }
  }
}

StepNumbers numbers(int step, int micro_batches) {
  const std::int64_t learned = 32 * micro_batches;
  StepNumbers numbers{.step = step,
                      .batches = {},
                      .learned = learned,
                      .loss_scale = 1.0 / static_cast<double>(learned),
                      .adamw = {}};
  numbers.adamw.lr = 1e-3;
  numbers.adamw.step = step + 1;
  for (int m = 0; m < micro_batches; ++m) {
    Batch batch;
    for (int i = 0; i < 32; ++i) {
      batch.ids.push_back((7 * i + m + step) % 96);
      batch.labels.push_back((7 * (i + 1) + m + step) % 96);
    }
    if (m == 1) batch.documents = {5, 11, 5, 11};  // two in a row
    numbers.batches.push_back(batch);
  }
  return numbers;
}

/// Collects the loss of each step, and counts host synchronisations after a warm-up.
class Recorder final : public Observer {
 public:
  Recorder(const StepRunner& runner, Outcome& outcome) : runner_(runner), outcome_(outcome) {}

  void step_finished(int step) override {
    outcome_.losses.push_back(runner_.result(step).loss);
    outcome_.norms.push_back(runner_.result(step).grad_norm);
    if (step == 1) simdev_reset_stats();
  }

 private:
  const StepRunner& runner_;
  Outcome& outcome_;
};

/// What the drives have moved until now.
DriveCounts counts_of(Places& places) {
  for (const PlaceId id : places.ids()) {
    if (places[id].drive) return places[id].drive->traffic().total();
  }
  return {};
}

std::vector<std::string> names_of(const OpenDevices& devices, const Conditions& conditions) {
  const auto& names = devices.names();
  return conditions.on_one_device ? std::vector(names.size(), names.front()) : names;
}

}  // namespace

Machine sample_machine(int devices) {
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

OpenDevices open_devices(Bytes memory, bool checked, const Conditions& conditions) {
  Machine machine = sample_machine(kOpenDevices);
  for (MachineDevice& device : machine.devices) device.p2p = {conditions.p2p};
  return OpenDevices(machine, {.memory = std::vector<Bytes>(kOpenDevices, memory),
                               .threads = 1,
                               .poison = checked,
                               .hazards = checked,
                               .strict = checked,
                               .lockable = conditions.lockable,
                               .launch_queue = conditions.launch_queue,
                               .pci_address = conditions.pci_address});
}

PlanQuestion training_question(int devices, int micro_batches) {
  PlanQuestion question = question_of(kSampleConfig, devices, micro_batches);
  question.strategy = "mobius";
  set_device_budgets(question, 720_KiB);
  return question;
}

PlanQuestion tied_question(const char* strategy, int devices, int micro_batches) {
  std::string config = kSampleConfig;
  config.replace(config.find("\"tie_word_embeddings\": false"), 28,
                 "\"tie_word_embeddings\": true");
  PlanQuestion asked = question_of(config, devices, micro_batches);
  asked.strategy = strategy;
  set_device_budgets(asked, 64_MiB);
  asked.clips = devices != 4;
  return asked;
}

Plan planned(const PlanQuestion& asked) {
  PlanAnswer answer = make_plan(asked);
  const auto* no = std::get_if<DoesNotFit>(&answer);
  if (no != nullptr)
    throw std::runtime_error("the test's budget is too small: " + to_string(no->need));
  return std::get<Planned>(std::move(answer)).plan;
}

Training::Training(const PlanQuestion& asked, const Plan& given, bool checked,
                   const BoxAccess& access, const Conditions& conditions, PhaseListener& listener)
    : plan(&given),
      devices(open_devices(
          device_budget(asked, 0).bytes * (conditions.on_one_device ? kOpenDevices : 1), checked,
          conditions)),
      places({&plan, 1}, names_of(devices, conditions), asked.machine, listener, access),
      runner({.model = asked.model,
              .plan = given,
              .places = places,
              .clip = conditions.clip,
              .update_threads = 1,
              .feed = [this](int step) { return numbers(step, plan->micro_batches); },
              .clock_life = {},
              .most_launches = conditions.most_launches}),
      states(asked.model, given, runner.binding()) {
  fill(asked.model, states);
}

std::vector<float> weights_of(const ModelSpec& model, const HomeStates& states) {
  std::vector<float> all;
  for (const BlockId b : model.blocks.ids()) {
    const auto& params = model.blocks[b].params;
    for (std::size_t i = 0; i < params.size(); ++i) {
      std::vector<float> values(static_cast<std::size_t>(params[i].numel()));
      states.read(StatePart::master, {b, i}, values);
      all.insert(all.end(), values.begin(), values.end());
    }
  }
  return all;
}

Outcome run(const PlanQuestion& asked, const Plan& plan, const BoxAccess& access,
            const Conditions& conditions) {
  Outcome outcome;
  Training training(asked, plan, /*checked=*/true, access, conditions);
  Recorder recorder(training.runner, outcome);
  const DriveCounts before = counts_of(training.places);
  drive(plan, {0, 4}, training.runner, recorder);
  outcome.drives = counts_of(training.places);
  outcome.drives.read -= before.read;
  outcome.drives.written -= before.written;
  for (int device = 0; device < kOpenDevices; ++device) {
    const SimStats stats = simdev_stats(device);
    outcome.host_syncs += stats.host_syncs;
    for (const auto& [name, count] : stats.drains) outcome.drains[name] += count;
  }
  outcome.hazards = simdev_hazards();
  outcome.weights = weights_of(asked.model, training.states);  // by copies outside the plan
  return outcome;
}

std::vector<Hazard> hazards_of(const PlanQuestion& asked, const Plan& plan,
                               const Conditions& conditions) {
  Training training(asked, plan, /*checked=*/true, {}, conditions);
  Observer nobody;
  try {
    drive(plan, {0, 4}, training.runner, nobody);
  } catch (const Diverged&) {  // or not, as the threads happen to run; the hazard is there anyway
  }
  return simdev_hazards();
}

}  // namespace ferry
