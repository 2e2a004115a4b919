#include "papers/harmony/harmony_program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "papers/harmony/harmony_experiments.h"
#include "papers/harmony/harmony_search.h"
#include "papers/harmony/sample_harmony.h"
#include "plan/verify.h"

namespace ferry {
namespace {

const std::filesystem::path kFolder = FERRY_SOURCE_DIR "/tests/data/harmony_profiles";

double step_of(const HarmonyProblem& problem, const HarmonyTuple& tuple, bool prefetch) {
  check_tuple(problem, tuple);
  return estimate(write_harmony_program(problem, tuple, prefetch)).step.seconds();
}

TEST(HarmonyProgram, EveryShippedScheduleTakesWhatHarmonySays) {
  const auto rows = read_harmony_rows(kFolder);
  EXPECT_EQ(rows.size(), 34);
  EXPECT_EQ(std::count_if(rows.begin(), rows.end(), [](auto& row) { return row.host_handover; }),
            13);
  for (const HarmonyRow& row : rows) {
    check_tuple(row.problem, row.tuple);
    for (const bool prefetch : {false, true}) {
      SCOPED_TRACE(row.model + " " + row.schedule + (prefetch ? " P" : " NP"));
      const auto& expected = prefetch ? row.with_prefetch : row.without_prefetch;
      const HarmonyProgram program = write_harmony_program(row.problem, row.tuple, prefetch);
      const HarmonyEstimate ours = estimate(program);
      constexpr double kPrinted = 0.51e-6;  // six digits behind the point
      EXPECT_NEAR(ours.step.seconds(), expected.step_seconds, kPrinted);
      EXPECT_NEAR(ours.compute_share, expected.compute_share, kPrinted);
      EXPECT_NEAR(ours.end_idle, expected.end_idle, kPrinted);
      EXPECT_EQ(program.peak, row.peak);
      for (const auto& [name, bytes] : row.volumes) {
        const auto found = program.volumes.find(name);
        EXPECT_EQ(found == program.volumes.end() ? 0 : found->second, bytes) << name;
      }
    }
  }
}

TEST(HarmonyProgram, ExperimentsListBothVariantsWithTheirErrors) {
  const auto experiments = harmony_experiments(kFolder);
  ASSERT_EQ(experiments.size(), 68);
  EXPECT_EQ(experiments[1].what, "bert96 D=16 N=4 vDP (4, 3, 4, 7), prefetch");
  for (const PaperRow& one : experiments) {
    EXPECT_LT(std::abs(one.error), 1e-6) << one.what;
  }
}

// One GPU, two layers in one pack, two samples one at a time. Without prefetch: weights 2 s, then
// per sample input 0.1, recompute 2, backward 4; gradients 2 s and their update 10 s.
TEST(HarmonyProgram, OnOneGpuTheTimesAddUp) {
  for (const auto mode : {HarmonyMode::pipeline, HarmonyMode::data_parallel}) {
    const HarmonyProblem problem = round_harmony(mode, 2, 1, 2);
    const HarmonyTuple tuple{1, {}, 1, {{0, 2}}};
    EXPECT_DOUBLE_EQ(step_of(problem, tuple, false), 2 + 2 * (0.1 + 2 + 4) + 2 + 10);
    // The second input arrives during the first sample's computation.
    EXPECT_DOUBLE_EQ(step_of(problem, tuple, true), 2 + 0.1 + 2 * (2 + 4) + 2 + 10);
  }
}

// Two GPUs that share the link, one sample, without prefetch. The first runs layer 0 forward:
// weights 2 s, input and its copy for backward 0.2 each, 1 s. While the second is busy with the
// loss pack, the first frees its own in 40 ms, fetches weights and input again and recomputes; only
// then it takes dX, which the second has held ready.
TEST(HarmonyProgram, APackPassesItsOutputToTheNextGpu) {
  const HarmonyProblem problem = round_harmony(HarmonyMode::pipeline, 2, 2, 1);
  const HarmonyTuple tuple{1, {{0, 1}}, 1, {{0, 1}, {1, 2}}};
  const double forward = 2 + 0.2 + 0.2 + 1;
  const double recomputed = forward + 0.04 + 2 + 0.2 + 1;
  EXPECT_DOUBLE_EQ(step_of(problem, tuple, false), recomputed + 0.1 + 2 + 2 + 5);
  const HarmonyProgram program = write_harmony_program(problem, tuple, false);
  EXPECT_EQ(program.volumes.at("p2p"), 20);
  EXPECT_EQ(program.volumes.at("weights_in"), 300);
  EXPECT_EQ(program.volumes.at("gradients_out"), 200);
  EXPECT_EQ(program.volumes.count("host_message"), 0);  // from a GPU to itself
}

// Data parallel: every GPU moves all weights, and gradients are summed over the GPUs.
TEST(HarmonyProgram, DataParallelGpusDoTheSameAndShareTheLink) {
  const HarmonyProblem problem = round_harmony(HarmonyMode::data_parallel, 1, 2, 2);
  const HarmonyTuple tuple{1, {}, 1, {{0, 1}}};
  // Weights 2 s and input 0.2 at half the rate, 3 s, all-reduce 2 (N-1)/N 100 B at 100 B/s.
  EXPECT_DOUBLE_EQ(step_of(problem, tuple, false), 2 + 0.2 + 3 + 1 + 2 + 5);
  const HarmonyProgram program = write_harmony_program(problem, tuple, false);
  EXPECT_EQ(program.volumes.at("allreduce_payload"), 200);
  EXPECT_EQ(program.volumes.at("weights_in"), 200);
  EXPECT_DOUBLE_EQ(estimate(program).compute_share, 3 / 13.2);
}

TEST(HarmonyProgram, WhatHoldsForEveryTuple) {
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto [problem, tuple] = random_harmony(seed);
    check_tuple(problem, tuple);
    HarmonySearch fixed;
    fixed.backward_batch = tuple.backward_batch;
    const Micros bound = harmony_lower_bound(problem, fixed);
    for (const bool prefetch : {false, true}) {
      const HarmonyProgram program = write_harmony_program(problem, tuple, prefetch);
      ASSERT_FALSE(verify(program.plan)) << verify(program.plan)->message;
      ASSERT_TRUE(can_run(program));
      const HarmonyEstimate ours = estimate(program);
      EXPECT_GE(ours.step.count, bound.count * (1 - 1e-12));
      EXPECT_GE(ours.step, ours.simulation.busiest);
      // Nothing is shared at a time, so the step is the longest path; and steps do not overlap.
      EXPECT_NEAR(ours.step.count, ours.simulation.critical_path.count, 1e-9 * ours.step.count);
      EXPECT_NEAR(simulate(program.plan, 3).step.count, ours.step.count, 1e-9 * ours.step.count);

      std::vector<double> sent;
      std::vector<double> received;
      for (const Span& span : ours.simulation.timeline.spans) {
        const Task& task = program.plan.tasks[static_cast<std::size_t>(span.run.task)];
        const Resource& queue = program.plan.resources[static_cast<std::size_t>(task.resource)];
        if (queue.name.ends_with("peer_out")) sent.push_back(span.start.count);
        if (queue.name.ends_with("peer_in")) received.push_back(span.start.count);
      }
      std::sort(sent.begin(), sent.end());
      std::sort(received.begin(), received.end());
      EXPECT_EQ(sent, received);  // the halves of a transfer begin together
    }
  }
}

TEST(HarmonyProgram, TuplesThatDoNotBelongAreRefused) {
  const HarmonyProblem problem = round_harmony(HarmonyMode::pipeline, 4, 2, 8);
  const HarmonyTuple good{2, {{0, 3}}, 2, {{0, 3}, {3, 4}}};
  EXPECT_NO_THROW(check_tuple(problem, good));
  const auto refused = [&](auto change) {
    HarmonyTuple tuple = good;
    change(tuple);
    EXPECT_THROW(check_tuple(problem, tuple), UserError);
  };
  refused([](auto& tuple) { tuple.forward = {{0, 2}}; });
  refused([](auto& tuple) { tuple.backward = {{0, 3}}; });
  refused([](auto& tuple) { tuple.forward_batch = 1; });  // below U_b
  refused([](auto& tuple) { tuple.forward_batch = 5; });  // not measured
  refused([](auto& tuple) { tuple.forward_batch = 9; });  // more than there are
  refused([](auto& tuple) { tuple.backward_batch = 0; });
  HarmonyProblem odd = round_harmony(HarmonyMode::data_parallel, 4, 3, 8);
  EXPECT_THROW(check_tuple(odd, good), UserError);
}

TEST(HarmonyProgram, RatesThatAMachineDoesNotGiveAreHarmonys) {
  Machine machine;
  machine.devices = {{.name = "a", .up = {2e9}, .p2p = {3e9}}, {.name = "b", .down = {1e9}}};
  const HarmonyServer server = harmony_server(machine);
  EXPECT_EQ(server.gpus[0].name, "a");
  EXPECT_EQ(server.gpus[0].swap_in, 2e9);
  EXPECT_EQ(server.gpus[0].swap_out, harmony_server(1).gpus[0].swap_out);
  EXPECT_EQ(server.gpus[1].swap_out, 1e9);
  EXPECT_EQ(server.peer, 3e9);
  EXPECT_EQ(server.messages, harmony_server(1).messages);
}

}  // namespace
}  // namespace ferry
