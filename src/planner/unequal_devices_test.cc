// Devices of one machine that differ in memory or in budget.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "planner/costs/estimate.h"
#include "planner/planner.h"
#include "planner/sample_questions.h"

namespace ferry {
namespace {

// 2.07 billion parameters: 30.8 GiB of weights, states and gradient sums.
constexpr const char* kModel = R"({
  "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 2560,
  "intermediate_size": 6912, "num_hidden_layers": 24, "num_attention_heads": 20,
  "num_key_value_heads": 20, "vocab_size": 32000, "tie_word_embeddings": false,
  "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "max_position_embeddings": 4096})";

PlanQuestion on_24_and_11_gib() {
  PlanQuestion question;
  question.model = parse_model_spec(kModel, "config.json");
  question.machine = parse_machine(
      "name: pair\n"
      "host: {cores: 16, memory: 128 GiB, memory_bandwidth: 50 GB/s}\n"
      "devices:\n"
      "  - {kind: cuda, memory: 24 GiB, fp32: 40 TFLOP/s, bf16: 80 TFLOP/s, up: 13 GB/s, down: 13 "
      "GB/s}\n"
      "  - {kind: cuda, memory: 11 GiB, fp32: 40 TFLOP/s, bf16: 80 TFLOP/s, up: 13 GB/s, down: 13 "
      "GB/s}\n",
      "pair.yaml");
  question.micro_batches = 4;
  question.sequence = 512;
  question.precision = Precision::bf16;
  question.host_budget = question.machine.host.memory;
  question.profile = estimate_profile(question.model, question.machine, question.precision,
                                      {question.micro_batch_size, question.sequence});
  return question;
}

// Every place within its own device's budget; drives and the host as the plan says.
void expect_own_budgets(const PlanQuestion& question, const Planned& planned) {
  expect_promises_hold(planned);
  const Plan& plan = planned.plan;
  for (int d = 0; d < static_cast<int>(question.machine.devices.size()); ++d) {
    const std::string& name = question.machine.devices[d].name;
    for (const PlaceId p : plan.places.ids()) {
      if (plan.places[p].name != name) continue;
      EXPECT_LE(plan.places[p].budget, device_budget(question, d).bytes) << name;
      EXPECT_LE(planned.prediction.peak[p], device_budget(question, d).bytes) << name;
    }
  }
}

TEST(UnequalDevices, TheLargerOneIsUsedBeyondTheSmallerOnesMemory) {
  PlanQuestion question = on_24_and_11_gib();
  PlanQuestion held = question;
  set_device_budgets(held, 11_GiB);
  for (const char* strategy : {"1f1b", "auto"}) {
    SCOPED_TRACE(strategy);
    question.strategy = held.strategy = strategy;
    const Planned planned = must_fit(question);
    expect_own_budgets(question, planned);
    EXPECT_GT(*std::ranges::max_element(planned.prediction.peak), 11_GiB);
    const PlanAnswer before = make_plan(held);
    if (const auto* slower = std::get_if<Planned>(&before)) {
      EXPECT_LT(planned.expected, slower->expected);
    }
  }
}

// In either order of the machine file, and beside one that is much faster.
TEST(UnequalDevices, ASlowOneHurtsNobody) {
  PlanQuestion fast = sample_question({.layers = 4, .hidden = 64}, {}, 2);
  fast.machine.devices.front().up = fast.machine.devices.front().down = {1e9};
  fast.profile = {};
  PlanQuestion pair = fast;
  MachineDevice slow = fast.machine.devices.front();
  slow.name = "slow";
  slow.index = 1;
  slow.up = slow.down = {1e6};
  slow.flops_fp32 = 1e9;
  pair.device_budgets.push_back(pair.device_budgets.front());
  for (const char* strategy : {"auto", "mobius", "resident"}) {
    fast.strategy = pair.strategy = strategy;
    const Micros alone = must_fit(fast).expected;
    for (const bool slow_first : {false, true}) {
      pair.machine.devices = fast.machine.devices;
      pair.machine.devices.insert(
          slow_first ? pair.machine.devices.begin() : pair.machine.devices.end(), slow);
      const Planned planned = must_fit(pair);
      expect_promises_hold(planned);
      EXPECT_LE(planned.expected.count, alone.count * (1 + 1e-9)) << strategy << slow_first;
      EXPECT_EQ(planned.candidates.front().strategy, planned.plan.strategy);
    }
  }
}

// In either order, where alone it would make the question not fit or only crowd its neighbour.
TEST(UnequalDevices, ASmallOneHurtsNobody) {
  PlanQuestion large = sample_question({.layers = 2, .hidden = 64}, {}, 2);
  large.machine.devices.front().up = large.machine.devices.front().down = {1e9};
  PlanQuestion pair = large;
  pair.machine.devices.push_back(large.machine.devices.front());
  pair.device_budgets.push_back(large.device_budgets.front());
  for (std::size_t d = 0; d < 2; ++d) {
    pair.machine.devices[d].name = "gpu" + std::to_string(d);
    pair.machine.devices[d].index = static_cast<int>(d);
  }
  for (const char* strategy : {"auto", "resident"}) {
    large.strategy = pair.strategy = strategy;
    const Micros alone = must_fit(large).expected;
    for (const std::size_t small : {0, 1}) {
      for (const Bytes size : {4_KiB, 1_MiB}) {
        SCOPED_TRACE(std::string(strategy) + ", gpu" + std::to_string(small) + " of " +
                     to_string(size));
        pair.device_budgets[small].bytes = size;
        pair.device_budgets[1 - small].bytes = large.device_budgets.front().bytes;
        const Planned planned = must_fit(pair);
        expect_promises_hold(planned);
        EXPECT_LE(planned.expected.count, alone.count * (1 + 1e-9));
      }
    }
  }
}

// A budget that one device has beyond the least never makes a question not fit.
TEST(UnequalDevices, EachKeepsToItsOwnBudget) {
  std::uint64_t planned_ones = 0;
  std::uint64_t more_than_least = 0;
  for (std::uint64_t seed = 1; seed <= random_share(160); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    PlanQuestion question = random_question(seed, true);
    if (question.machine.devices.size() < 2) continue;
    std::mt19937_64 random(seed);
    for (Budget& budget : question.device_budgets) {
      budget.bytes =
          Bytes{budget.bytes.count * static_cast<std::int64_t>(30 + random() % 400) / 100};
    }
    const Bytes least = device_budget(question, least_device(question)).bytes;
    PlanQuestion held = question;
    set_device_budgets(held, least);
    const PlanAnswer answer = make_plan(question);
    const auto* planned = std::get_if<Planned>(&answer);
    if (!planned) {
      EXPECT_TRUE(std::holds_alternative<DoesNotFit>(make_plan(held)));
      continue;
    }
    ++planned_ones;
    expect_own_budgets(question, *planned);
    for (const PlaceId p : planned->plan.places.ids()) {
      const bool device = planned->plan.places[p].kind == PlaceKind::device;
      if (device && planned->prediction.peak[p] > least) {
        ++more_than_least;
        break;
      }
    }
  }
  expect_enough(planned_ones, 40);
  expect_enough(more_than_least, 10);
}

// Only the device that lacks is raised, and the job that the remedy spells asks that question.
TEST(UnequalDevices, RemediesNameTheOneThatLacks) {
  SampleMachine machine;
  machine.devices = 2;
  PlanQuestion question = sample_question({}, machine, 2);
  question.strategy = "1f1b";  // which has no plan without it
  question.device_budgets[1].bytes = 10_KiB;
  const PlanAnswer answer = make_plan(question);
  const auto& lacking = std::get<DoesNotFit>(answer);
  EXPECT_EQ(lacking.place, "gpu1");
  EXPECT_EQ(lacking.have, 10_KiB);
  EXPECT_EQ(lacking.limit_source, "budget.device, job.yaml:9");
  const auto raised = std::ranges::find_if(lacking.remedies, [](const Remedy& remedy) {
    return remedy.change.starts_with("budget.device: {gpu0: 4 GiB, gpu1: ");
  });
  ASSERT_NE(raised, lacking.remedies.end());
  std::string change = raised->change;
  change.replace(change.find(": "), 2, "=");
  const std::vector<std::string> overrides = {change};
  question.device_budgets =
      device_budgets(parse_job("model: m", "job.yaml", overrides), question.machine);
  EXPECT_EQ(must_fit(question).expected, raised->step);
}

/// Two devices of 24 GiB, on one GPU or on two.
Plan streamed_on(int gpus) {
  PlanQuestion question = on_24_and_11_gib();
  question.strategy = "mobius";
  for (int d = 0; d < 2; ++d) {
    question.machine.devices[d].memory = 24_GiB;
    question.machine.devices[d].index = d % gpus;
  }
  return must_fit(question).plan;
}

std::vector<std::string> pools_of(const Plan& plan, const std::string& resource) {
  std::vector<std::string> names;
  const auto found = std::ranges::find(plan.resources, resource, &Resource::name);
  for (const Draw& draw : found->draws) names.push_back(plan.pools[draw.pool].name);
  return names;
}

TEST(UnequalDevices, LogicalOnesShareOneGpusLinksAndComputation) {
  const Plan shared = streamed_on(1), apart = streamed_on(2);
  using Names = std::vector<std::string>;
  for (const std::string name : {"gpu0", "gpu1"}) {
    EXPECT_EQ(pools_of(shared, name + ".compute"), Names({"cuda0"}));
    EXPECT_EQ(pools_of(shared, name + ".weights_up"), Names({"cuda0.up", "dram"}));
    EXPECT_EQ(pools_of(shared, name + ".sums_down"), Names({"cuda0.down", "dram"}));
    EXPECT_EQ(pools_of(apart, name + ".compute"), Names());
    EXPECT_EQ(pools_of(apart, name + ".weights_up"), Names({name + ".up", "dram"}));
  }
  EXPECT_GT(simulate(shared).step.count, 1.5 * simulate(apart).step.count);
}

}  // namespace
}  // namespace ferry
