#include "planner/tiers/activation_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace ferry {
namespace {

constexpr double kFlops = 160e12;

// A GPT of `layers` layers, its states in blocks of a layer, on 21 GB/s links.
PolicyQuestion gpt_question(int layers, double hidden, double tokens, int drives) {
  PolicyQuestion question;
  const double per_layer = 12 * hidden * hidden;
  question.costs = ratel_costs(per_layer * layers, tokens, kFlops);
  question.link_rate = 21e9;
  question.tiers.read_rate = 6.5e9 * drives;
  question.tiers.write_rate = 3e9 * drives;
  const Bytes hi{static_cast<std::int64_t>(2 * per_layer)};
  question.tiers.blocks.assign(static_cast<std::size_t>(layers),
                               {.hi = hi, .states = 5 * hi, .activation = {}, .recompute = 0});
  question.tensors = gpt_swap_tensors(layers, hidden, tokens, kFlops, 0.01);
  return question;
}

PolicyQuestion random_policy(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  constexpr double kWidths[] = {1024, 2048, 5120};
  PolicyQuestion question =
      gpt_question(static_cast<int>(1 + random() % 6), kWidths[random() % 3],
                   static_cast<double>(512 + random() % 60000), static_cast<int>(1 + random() % 4));
  if (random() % 2 == 0) {
    question.tiers.device_spare = {static_cast<std::int64_t>(random() % 3'000'000'000)};
  }
  return question;
}

double step_of(const PolicyQuestion& question) {
  return choose_activation_policy(question).time.total();
}

TEST(ActivationPolicy, WithoutMemoryEverythingMovesAsTheModelSays) {
  const PolicyQuestion question = gpt_question(40, 5120, 8192, 1);
  const ActivationPolicy policy = choose_activation_policy(question);
  SwapProblem problem;
  problem.costs = question.costs;
  const double parameters = 12.0 * 5120 * 5120 * 40;
  problem.costs.backward_read = 12 * parameters;  // hi16 once more, lo16, m, v; no P16 beside P32
  problem.costs.backward_written = 12 * parameters;
  problem.rates = {21e9, 6.5e9, 3e9};
  problem.tensors = question.tensors;
  EXPECT_DOUBLE_EQ(policy.time.total(), choose_swaps(problem).time.total());
  EXPECT_DOUBLE_EQ(policy.drive_bytes, 2.0 * 8192 * 5120 * 40);
  EXPECT_EQ(std::ranges::count(policy.fates, ActivationFate::swap_to_drive), 40);
  EXPECT_EQ(std::ranges::count(policy.fates, ActivationFate::recompute), 200);
}

TEST(ActivationPolicy, FatesAddUpToTheBytes) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    PolicyQuestion question = random_policy(seed);
    question.tiers.host = {static_cast<std::int64_t>(seed * 100'000'000)};
    const ActivationPolicy policy = choose_activation_policy(question);
    double kept = 0;
    double host = 0;
    double drive = 0;
    double recompute = 0;
    double largest = 0;
    for (std::size_t i = 0; i < question.tensors.size(); ++i) {
      const SwapTensor& tensor = question.tensors[i];
      largest = std::max(largest, tensor.bytes);
      if (policy.fates[i] == ActivationFate::keep) kept += tensor.bytes;
      if (policy.fates[i] == ActivationFate::swap_to_host) host += tensor.bytes;
      if (policy.fates[i] == ActivationFate::swap_to_drive) drive += tensor.bytes;
      if (policy.fates[i] == ActivationFate::recompute) {
        recompute += tensor.recompute;
        EXPECT_FALSE(tensor.must_be_swapped) << "seed " << seed;
      }
    }
    EXPECT_NEAR(kept, policy.kept_bytes, 1);
    EXPECT_NEAR(host + drive, policy.host_bytes + policy.drive_bytes, 1) << "seed " << seed;
    EXPECT_LE(host, policy.host_bytes + 1) << "seed " << seed;
    EXPECT_LE(policy.host_bytes, host + largest) << "seed " << seed;
    EXPECT_NEAR(recompute, policy.recompute, 1e-9);
    const TierPlacement& states = policy.states;
    EXPECT_LE(policy.kept_bytes + static_cast<double>(states.device_used.count),
              static_cast<double>(question.tiers.device_spare.count));
    EXPECT_LE(policy.host_bytes + static_cast<double>(states.host_used.count),
              static_cast<double>(question.tiers.host.count) + 1);
  }
}

TEST(ActivationPolicy, MoreHostMemoryIsNeverSlower) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    PolicyQuestion question = random_policy(seed);
    double previous = step_of(question);
    for (std::int64_t host = 1; host < 200; host += 1 + host / 6) {
      question.tiers.host = {host * 100'000'000};
      const double step = step_of(question);
      EXPECT_LE(step, previous * (1 + 1e-12)) << "seed " << seed << " host " << host;
      previous = step;
    }
  }
}

// Sharing DRAM in the best proportion beats giving all of it to one of the two.
TEST(ActivationPolicy, SharedMemoryBeatsStatesFirstAndActivationsFirst) {
  int better_than_states_first = 0;
  int better_than_activations_first = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    PolicyQuestion question = random_policy(seed);
    question.tiers.device_spare = {};
    question.tiers.host = {static_cast<std::int64_t>(1'000'000'000 + seed * 50'000'000)};
    const double step = step_of(question);
    const double parameters = static_cast<double>(question.tiers.blocks[0].hi.count) / 2 *
                              static_cast<double>(question.tiers.blocks.size());
    const TierPlacement states = place_by_value(question.tiers);
    SwapProblem problem;
    problem.costs = question.costs;
    problem.rates = {question.link_rate, question.tiers.read_rate, question.tiers.write_rate};
    problem.tensors = question.tensors;
    problem.costs.backward_read = problem.costs.backward_written = 12 * parameters;
    problem.host_available = static_cast<double>(question.tiers.host.count);
    const double activations_first = choose_swaps(problem).time.total();

    double hi = 0;
    for (std::size_t b = 0; b < states.blocks.size(); ++b) {
      if (states.blocks[b].hi != PlaceKind::drive) continue;
      hi += static_cast<double>(question.tiers.blocks[b].hi.count);
    }
    problem.costs.forward_read = hi;
    problem.costs.backward_read = static_cast<double>(states.drive_read.count) - hi;
    problem.costs.backward_written = static_cast<double>(states.drive_written.count);
    problem.host_available = static_cast<double>((question.tiers.host - states.host_used).count);
    const double states_first = choose_swaps(problem).time.total();
    EXPECT_LE(step, activations_first * (1 + 1e-12)) << "seed " << seed;
    if (step < 0.99 * states_first) ++better_than_states_first;
    if (step < 0.99 * activations_first) ++better_than_activations_first;
  }
  EXPECT_GT(better_than_states_first, 0);
  EXPECT_GT(better_than_activations_first, 0);
}

TEST(ActivationPolicy, SpareDeviceMemoryKeepsTheDeepestInputs) {
  PolicyQuestion question = gpt_question(4, 5120, 8192, 1);
  const double input = 2.0 * 8192 * 5120;
  question.tiers.blocks.clear();  // states elsewhere: the device's memory is for activations
  question.tiers.device_spare = {static_cast<std::int64_t>(2 * input)};
  const ActivationPolicy policy = choose_activation_policy(question);
  EXPECT_DOUBLE_EQ(policy.kept_bytes, 2 * input);
  for (std::size_t i = 0; i < question.tensors.size(); ++i) {
    const SwapTensor& tensor = question.tensors[i];
    if (tensor.name != "input") continue;
    EXPECT_EQ(policy.fates[i] == ActivationFate::keep, tensor.layer >= 2) << tensor.layer;
  }
}

TEST(ActivationPolicy, StatesOnTheDeviceCrossNoLink) {
  PolicyQuestion question = gpt_question(2, 1024, 1024, 1);
  question.tiers.device_spare = 1_GiB;
  const ActivationPolicy policy = choose_activation_policy(question);
  EXPECT_EQ(policy.costs.forward_upload, 0);
  EXPECT_EQ(policy.costs.backward_download, 0);
  EXPECT_EQ(policy.costs.backward_read, 0);
}

}  // namespace
}  // namespace ferry
