#include "planner/sample_questions.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "plan/verify.h"
#include "planner/costs/estimate.h"
#include "planner/strategies/strategies.h"
#include "spec/pass_names.h"

namespace ferry {
namespace {

std::string number(int value) { return std::to_string(value); }

int pick(std::mt19937_64& random, std::initializer_list<int> options) {
  return *(options.begin() + static_cast<std::ptrdiff_t>(random() % options.size()));
}

// Auto half of the time, else one of the strategies with a plan.
std::string pick_strategy(std::mt19937_64& random) {
  std::vector<std::string> names;
  for (const Strategy& strategy : strategies()) {
    names.emplace_back(strategy.name);
  }
  const std::size_t picked = random() % (2 * names.size());
  return picked < names.size() ? names[picked] : "auto";
}

// Some drives, all alike.
void add_drives(Machine& machine, std::mt19937_64& random) {
  const int count = pick(random, {0, 1, 4});
  const double rate = pick(random, {10, 200}) * 1e6;
  const bool duplex = pick(random, {0, 1}) == 1;
  for (int d = 0; d < count; ++d) {
    Drive drive;
    drive.name = "ssd" + number(d);
    drive.capacity = 1_GiB;
    drive.read = {rate};
    drive.write = {rate / 2};
    drive.duplex = duplex;
    machine.drives.push_back(drive);
  }
}

// Half of the time no block can keep its activations, else most can, at some price.
void add_saving(PlanQuestion& question, std::mt19937_64& random) {
  const bool can = pick(random, {0, 1}) == 1;
  for (BlockProfile& block : question.profile.blocks) {
    block.saved = can ? block.activation * pick(random, {0, 1, 4, 16}) : Bytes{};
    block.saved_backward = block.backward * (pick(random, {50, 67, 95}) * 0.01);
    block.saving_workspace = block.forward_workspace;
    block.saved_backward_workspace = block.backward_workspace;
  }
}

// Whether the next step makes it anew, and nobody reads what a step leaves.
bool ends_with_step(ValueKind kind) {
  switch (kind) {
    case ValueKind::activation:
    case ValueKind::activation_gradient:
    case ValueKind::saved:
    case ValueKind::tokens:
    case ValueKind::gradient:
    case ValueKind::rounded:
      return true;
    default:
      return false;
  }
}

// That no copy of what ends with the step is written over, or left, before somebody has read it.
void expect_copies_are_read(const Plan& plan) {
  IdVector<InstanceId, TaskId> unread(plan.instances.size());
  for (const TaskId id : plan.tasks.ids()) {
    const Task& task = plan.tasks[id];
    for (const InstanceId read : task.reads) unread[read] = TaskId();
    if (task.kind != TaskKind::copy) continue;
    const InstanceId to = task.writes.front();
    if (!ends_with_step(plan.values[plan.instances[to].value].kind)) continue;
    EXPECT_FALSE(unread[to].valid()) << plan.tasks[unread[to]].name << " is written over";
    unread[to] = id;
  }
  for (const TaskId id : unread) EXPECT_FALSE(id.valid()) << plan.tasks[id].name << " is left";
}

}  // namespace

ModelSpec sample_model(const SampleModel& shape) {
  const std::string tied = shape.tied ? "true" : "false";
  if (shape.gpt2) {
    return parse_model_spec(
        R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": )" +
            number(shape.hidden) + R"(, "n_layer": )" + number(shape.layers) +
            R"(, "n_head": 2, "n_positions": 4096, "vocab_size": )" + number(shape.vocab) +
            R"(, "tie_word_embeddings": )" + tied + "}",
        "gpt2 sample");
  }
  return parse_model_spec(
      R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": )" +
          number(shape.hidden) + R"(, "num_hidden_layers": )" + number(shape.layers) +
          R"(, "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": )" +
          number(3 * shape.hidden) + R"(, "max_position_embeddings": 4096, "vocab_size": )" +
          number(shape.vocab) + R"(, "rms_norm_eps": 1e-5, "tie_word_embeddings": )" + tied + "}",
      "llama sample");
}

Machine sample_machine(const SampleMachine& shape) {
  Machine machine;
  machine.name = "sample";
  machine.host.cores = shape.cores;
  machine.host.memory = 64_GiB;
  for (int r = 0; r < shape.roots; ++r) {
    machine.roots.push_back({"root" + number(r), {1.5 * shape.link_rate}, {shape.link_rate}});
  }
  for (int d = 0; d < shape.devices; ++d) {
    MachineDevice device;
    device.name = "gpu" + number(d);
    device.kind = DeviceKind::sim;
    device.index = d;
    device.memory = 16_GiB;
    device.threads = shape.threads;
    device.up = device.down = {shape.link_rate};
    device.p2p = {shape.p2p_rate};
    if (shape.roots > 0) device.root = d % shape.roots;
    machine.devices.push_back(device);
  }
  return machine;
}

PlanQuestion sample_question(const SampleModel& model, const SampleMachine& machine,
                             int micro_batches) {
  PlanQuestion question;
  question.model = sample_model(model);
  question.machine = sample_machine(machine);
  question.micro_batches = micro_batches;
  question.micro_batch_size = 1;
  question.sequence = 16;
  question.device_budgets.assign(question.machine.devices.size(),
                                 {4_GiB, "budget.device, job.yaml:9"});
  question.host_budget = 16_GiB;
  question.host_budget_source = "budget.host, job.yaml:9";
  question.options.without = std::string(pass_name::kBlocks) + "," + pass_name::kRounds;
  question.profile =
      estimate_profile(question.model, question.machine, question.precision, {1, 16});
  return question;
}

void use_round_costs(PlanQuestion& question) {
  question.profile.task_overhead = question.profile.copy_overhead = Micros{0};
  question.profile.update_rate = 1e6;
  for (BlockProfile& block : question.profile.blocks) {
    block.forward = Micros{1000};
    block.backward = Micros{3000};
    block.forward_workspace = block.backward_workspace = 4_KiB;
    block.saved = {};  // every block recomputes
  }
}

Bytes states_of(const PlanQuestion& question) { return {12 * parameters(question.model)}; }

PlanQuestion random_question(std::uint64_t seed, bool small) {
  std::mt19937_64 random(seed);
  SampleModel model;
  model.gpt2 = pick(random, {0, 1}) == 1;
  model.tied = pick(random, {0, 1}) == 1;
  model.layers = small ? pick(random, {1, 2}) : pick(random, {1, 2, 3, 5, 9});
  model.hidden = pick(random, {16, 32, 64});
  model.vocab = pick(random, {32, 300, 1000});
  SampleMachine machine;
  machine.devices = pick(random, {1, 2, 3, 4});
  machine.roots = pick(random, {0, 1, 2});
  machine.link_rate = pick(random, {0, 20, 500}) * 1e6;
  if (machine.link_rate <= 0) machine.roots = 0;
  machine.cores = pick(random, {1, 2, 8});
  machine.threads = pick(random, {1, 2});
  PlanQuestion question = sample_question(model, machine, pick(random, {1, 2, 3, 4}));
  question.precision = pick(random, {0, 1}) == 1 ? Precision::bf16 : Precision::fp32;
  question.clips = pick(random, {0, 1}) == 1;
  question.mode = pick(random, {0, 0, 0, 1}) == 1 ? PlanMode::evaluate : PlanMode::train;
  question.micro_batch_size = pick(random, {1, 2});
  question.sequence = pick(random, {8, 32, 64});
  question.profile = estimate_profile(question.model, question.machine, question.precision,
                                      {question.micro_batch_size, question.sequence});
  const double share = pick(random, {2, 8, 20, 40, 80, 200, 400}) * 0.01;
  set_device_budgets(
      question, {static_cast<std::int64_t>(share * static_cast<double>(states_of(question).count)) +
                 pick(random, {10'000, 100'000, 1'000'000})});
  add_drives(question.machine, random);
  const double host_share = pick(random, {5, 25, 50, 100, 200, 400}) * 0.01;
  question.host_budget = {
      static_cast<std::int64_t>(host_share * static_cast<double>(states_of(question).count)) +
      300'000};
  if (pick(random, {0, 1}) == 1) question.machine.host.memory_bandwidth = {2e9};
  question.strategy = pick_strategy(random);
  add_saving(question, random);
  const double p2p = pick(random, {0, 0, 100}) * 1e6;  // slower than some links
  for (MachineDevice& device : question.machine.devices) device.p2p = {p2p};
  return question;
}

std::uint64_t random_share(std::uint64_t usually) {
  const char* percent = std::getenv("FERRY_RANDOM_PERCENT");
  return percent ? usually * std::stoull(percent) / 100 : usually;
}

void expect_enough(std::uint64_t found, std::uint64_t least) {
  if (random_share(100) >= 100) {
    EXPECT_GT(found, least);
  }
}

void expect_promises_hold(const Planned& planned) {
  for (const Plan* plan : {&planned.plan, planned.evaluation ? &*planned.evaluation : nullptr}) {
    if (plan == nullptr) continue;
    const auto violation = verify(*plan);
    EXPECT_FALSE(violation) << violation->message;
    expect_copies_are_read(*plan);
  }
  for (const PlaceId id : planned.plan.places.ids()) {
    EXPECT_LE(peak_bytes(planned, id), planned.plan.places[id].budget);
  }
  EXPECT_GE(planned.prediction.step.count * (1 + 1e-9), planned.lower_bound.count);
  for (std::size_t p = 0; p < planned.plan.places.size(); ++p) {
    EXPECT_LE(planned.prediction.peak[p], planned.plan.places[p].budget);
  }
}

Planned must_fit(const PlanQuestion& question, const Planner& planner) {
  PlanAnswer answer = planner(question);
  if (const auto* lacking = std::get_if<DoesNotFit>(&answer)) {
    ADD_FAILURE() << "does not fit: " << lacking->place << " needs " << to_string(lacking->need)
                  << ", has " << to_string(lacking->have);
    return {};
  }
  return std::get<Planned>(std::move(answer));
}

}  // namespace ferry
