#include "planner/write/activation_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>

#include "planner/sample_questions.h"

namespace ferry {
namespace {

constexpr int kMicroBatches = 3;
const Micros kRecompute{1000};  // what keeping saves, per block and micro-batch

// Blocks take 1 ms forward and 3 ms backward, 2 ms of them without recompute.
PlanQuestion saving_question(const SampleMachine& machine, const std::string& strategy) {
  PlanQuestion question = sample_question({.layers = 4, .hidden = 64}, machine, kMicroBatches);
  use_round_costs(question);
  for (BlockProfile& block : question.profile.blocks) {
    block.saved = 256_KiB;
    block.saved_backward = block.backward - kRecompute;
    block.saving_workspace = block.forward_workspace;
    block.saved_backward_workspace = block.backward_workspace;
  }
  question.strategy = strategy;
  return question;
}

Planned planned_with(PlanQuestion question, ActivationRule rule) {
  question.options.activations = rule;
  Planned planned = must_fit(question);
  expect_promises_hold(planned);
  return planned;
}

void add_drive(PlanQuestion& question, double rate) {
  Drive drive;
  drive.name = "ssd0";
  drive.capacity = 1_GiB;
  drive.read = drive.write = {rate};
  question.machine.drives.push_back(drive);
}

struct DriveTraffic {
  Bytes read;
  Bytes written;
};

// What the drives of a plan read and write per step.
DriveTraffic drive_traffic(const Plan& plan) {
  const auto on_drive = [&](InstanceId id) {
    const PlaceId place = plan.instances[id].place;
    return plan.places[place].kind == PlaceKind::drive;
  };
  DriveTraffic traffic;
  for (const Task& task : plan.tasks) {
    if (task.kind != TaskKind::copy) continue;
    if (on_drive(task.reads.front())) traffic.read += task.bytes;
    if (on_drive(task.writes.front())) traffic.written += task.bytes;
  }
  return traffic;
}

std::int64_t count(const Plan& plan, ActivationPolicy policy) {
  const ActivationPolicies policies = policies_of(plan);
  return std::count(policies.begin(), policies.end(), policy);
}

// All but the first and the fused head.
std::int64_t saving_blocks(const Plan& plan) {
  return static_cast<std::int64_t>(plan.blocks.size()) - 2;
}

TEST(ActivationPolicies, ABackwardTakesTheWorkspaceOfItsOwnWay) {
  PlanQuestion question = saving_question({}, "resident");
  for (BlockProfile& block : question.profile.blocks) {
    block.backward_workspace = 3_MiB;
    block.saved_backward_workspace = 1_MiB;
  }
  const auto workspaces = [&](ActivationRule rule) {
    const Plan plan = planned_with(question, rule).plan;
    std::map<Bytes, std::int64_t> found;
    for (const Task& task : plan.tasks) {
      if (task.kind == TaskKind::backward) ++found[task.workspace];
    }
    return found;
  };
  const std::int64_t backwards = 11 * kMicroBatches;  // embedding, 4 layers of two, norm, head
  EXPECT_EQ(workspaces(ActivationRule::recompute),
            (std::map<Bytes, std::int64_t>{{3_MiB, backwards}}));
  const std::map<Bytes, std::int64_t> kept = workspaces(ActivationRule::keep);
  EXPECT_EQ(kept.at(3_MiB), 2 * kMicroBatches);  // the first block and the head keep nothing
  EXPECT_EQ(kept.at(1_MiB), backwards - 2 * kMicroBatches);
}

TEST(ActivationPolicies, ResidentKeepsAllThatFitsAndSavesItsRecompute) {
  const PlanQuestion question = saving_question({}, "resident");
  const Planned recomputing = planned_with(question, ActivationRule::recompute);
  const Planned keeping = planned_with(question, ActivationRule::automatic);

  const std::int64_t blocks = saving_blocks(keeping.plan);
  EXPECT_EQ(count(recomputing.plan, ActivationPolicy::recompute), blocks + 2);
  EXPECT_EQ(count(keeping.plan, ActivationPolicy::keep), blocks);
  EXPECT_NEAR((recomputing.prediction.step - keeping.prediction.step).count,
              kRecompute.count * static_cast<double>(kMicroBatches * blocks), 1e-3);
}

TEST(ActivationPolicies, ShortMemoryKeepsTheBlocksThatSaveMostPerByte) {
  PlanQuestion question = saving_question({}, "resident");
  for (BlockProfile& block : question.profile.blocks) {
    if (block.key.starts_with("mlp")) block.saved = 1_MiB;  // for the same recompute
  }
  const Planned recomputing = planned_with(question, ActivationRule::recompute);
  const Bytes spare = 4 * 256_KiB + 1_MiB + 16_KiB;
  set_device_budgets(question, recomputing.prediction.peak.front() + spare);

  const Planned keeping = planned_with(question, ActivationRule::automatic);

  const ActivationPolicies policies = policies_of(keeping.plan);
  for (std::size_t b = 0; b < policies.size(); ++b) {
    if (keeping.plan.blocks[b].kind != "attention") continue;
    EXPECT_EQ(policies[b], ActivationPolicy::keep) << b;
  }
  EXPECT_LT(count(keeping.plan, ActivationPolicy::keep), saving_blocks(keeping.plan));
  EXPECT_LE(keeping.prediction.peak.front(), device_budget(question, 0).bytes);
}

TEST(ActivationPolicies, PipelinesHoldWhatIsInFlight) {
  for (const char* strategy : {"gpipe", "1f1b", "interleaved", "mixed-pipe"}) {
    SCOPED_TRACE(strategy);
    const PlanQuestion question = saving_question({.devices = 2, .cores = 8}, strategy);
    const Planned recomputing = planned_with(question, ActivationRule::recompute);
    const Planned keeping = planned_with(question, ActivationRule::automatic);

    EXPECT_EQ(count(keeping.plan, ActivationPolicy::keep), saving_blocks(keeping.plan));
    EXPECT_LT(keeping.prediction.step, recomputing.prediction.step);
  }
}

TEST(ActivationPolicies, SwappingPaysWhereTheLinkIsIdle) {
  for (const char* strategy : {"mobius", "harmony-pp", "harmony-dp", "zero", "fuyou"}) {
    SCOPED_TRACE(strategy);
    PlanQuestion question = saving_question({.devices = 2, .link_rate = 2e9, .cores = 8}, strategy);
    set_device_budgets(question, 3_MiB);
    const Planned recomputing = planned_with(question, ActivationRule::recompute);
    const Planned swapping = planned_with(question, ActivationRule::swap);
    const Planned chosen = planned_with(question, ActivationRule::automatic);

    EXPECT_GT(count(swapping.plan, ActivationPolicy::swap_to_host), 0);
    EXPECT_LT(swapping.prediction.step, recomputing.prediction.step);
    // Lists are compared at equal rings, and only the best gets its own.
    EXPECT_LE(chosen.prediction.step.count, swapping.prediction.step.count * (1 + 1e-3));
  }
}

TEST(ActivationPolicies, RecomputingPaysWhereTheLinkIsBusy) {
  PlanQuestion question = saving_question({.link_rate = 50e6, .cores = 8}, "fuyou");
  set_device_budgets(question, 3_MiB);
  for (BlockProfile& block : question.profile.blocks) block.saved = 1_MiB;
  set_device_budgets(question, 5_MiB);
  const Planned recomputing = planned_with(question, ActivationRule::recompute);
  const Planned swapping = planned_with(question, ActivationRule::swap);
  const Planned chosen = planned_with(question, ActivationRule::automatic);

  EXPECT_GT(swapping.prediction.step, recomputing.prediction.step);
  EXPECT_LE(chosen.prediction.step.count, recomputing.prediction.step.count * (1 + 1e-9));
}

// Blocks 1 to 3 can keep, 256 KiB per micro-batch. Three slots on the device and three on the host
// hold the last block's when backward begins; the other two blocks' go out and come back once.
TEST(ActivationPolicies, SwappingToDrivesMovesEveryByteOutAndBackOnce) {
  PlanQuestion question = sample_question({.layers = 1, .hidden = 64}, {}, kMicroBatches);
  use_round_costs(question);
  for (BlockProfile& block : question.profile.blocks) {
    block.saved = 256_KiB;
    block.saved_backward = block.backward - kRecompute;
    block.saving_workspace = block.forward_workspace;
    block.saved_backward_workspace = block.backward_workspace;
  }
  question.strategy = "fuyou";
  add_drive(question, 1e9);

  const Planned planned = planned_with(question, ActivationRule::swap_to_drive);

  EXPECT_EQ(policies_text(planned.plan), "1 blocks keep, 2 swap to drive, 2 recompute");
  EXPECT_EQ(drive_traffic(planned.plan).written, 2 * kMicroBatches * 256_KiB);
  EXPECT_EQ(drive_traffic(planned.plan).read, 2 * kMicroBatches * 256_KiB);
}

TEST(ActivationPolicies, EveryStreamingStrategySwapsToDrives) {
  for (const char* strategy : {"mobius", "harmony-pp", "harmony-dp", "roundpipe", "zero", "fuyou",
                               "fuyou-naive", "fuyou-serial"}) {
    for (const bool clips : {false, true}) {
      SCOPED_TRACE(std::string(strategy) + (clips ? ", clips" : ""));
      PlanQuestion question = saving_question({.devices = 2, .cores = 8}, strategy);
      question.clips = clips;
      add_drive(question, 1e9);
      const Planned planned = planned_with(question, ActivationRule::swap_to_drive);
      const std::int64_t swapping = count(planned.plan, ActivationPolicy::swap_to_drive);
      EXPECT_GT(swapping, 0);
      const DriveTraffic use = drive_traffic(planned.plan);
      EXPECT_EQ(use.read, use.written);
      EXPECT_GT(use.written, Bytes{});
      EXPECT_LE(use.written, swapping * kMicroBatches * 256_KiB);
    }
  }
}

// DRAM holds the states and a few slots, not what forward keeps.
TEST(ActivationPolicies, DrivesTakeWhatDramDoesNotHold) {
  for (const char* strategy : {"mobius", "harmony-pp", "fuyou"}) {
    SCOPED_TRACE(strategy);
    PlanQuestion question = saving_question({.link_rate = 2e9, .cores = 8}, strategy);
    set_device_budgets(question, 3_MiB);
    for (BlockProfile& block : question.profile.blocks) block.saved = 512_KiB;
    const Planned recomputing = planned_with(question, ActivationRule::recompute);
    question.host_budget = recomputing.prediction.peak[1] + 2_MiB;
    add_drive(question, 2e9);
    const Planned swapping = planned_with(question, ActivationRule::swap_to_drive);
    const Planned chosen = planned_with(question, ActivationRule::automatic);

    EXPECT_EQ(to_text(planned_with(question, ActivationRule::automatic).plan),
              to_text(chosen.plan));
    EXPECT_LT(swapping.prediction.step, recomputing.prediction.step);
    EXPECT_GT(count(chosen.plan, ActivationPolicy::swap_to_drive), 0);
    EXPECT_LE(chosen.prediction.step.count, swapping.prediction.step.count * (1 + 1e-9));
  }
}

TEST(ActivationPolicies, SlowDrivesTakeNothing) {
  PlanQuestion question = saving_question({.link_rate = 2e9, .cores = 8}, "fuyou");
  set_device_budgets(question, 3_MiB);
  const Planned recomputing = planned_with(question, ActivationRule::recompute);
  question.host_budget = recomputing.prediction.peak[1] + 1_MiB;
  add_drive(question, 1e6);
  const Planned chosen = planned_with(question, ActivationRule::automatic);
  EXPECT_EQ(count(chosen.plan, ActivationPolicy::swap_to_drive), 0);
}

TEST(ActivationPolicies, WithoutDrivesNoBlockCanSwapToThem) {
  const PlanQuestion question = saving_question({}, "fuyou");
  const Planned planned = planned_with(question, ActivationRule::swap_to_drive);
  EXPECT_EQ(policies_text(planned.plan), "11 blocks recompute");
}

TEST(ActivationPolicies, WhatIsAskedForAndDoesNotFitSaysWhatWould) {
  PlanQuestion question = saving_question({}, "resident");
  const Planned recomputing = planned_with(question, ActivationRule::recompute);
  set_device_budgets(question, recomputing.prediction.peak.front() + 64_KiB);
  question.options.activations = ActivationRule::keep;

  const PlanAnswer answer = make_plan(question);

  ASSERT_TRUE(std::holds_alternative<DoesNotFit>(answer));
  const auto& remedies = std::get<DoesNotFit>(answer).remedies;
  EXPECT_TRUE(std::any_of(remedies.begin(), remedies.end(), [](const Remedy& remedy) {
    return remedy.change == "plan.activations: auto";
  }));
}

TEST(ActivationPolicies, AnEvaluationKeepsNothing) {
  for (const char* strategy : {"resident", "1f1b", "mobius"}) {
    PlanQuestion question = saving_question({.devices = 2, .cores = 8}, strategy);
    question.mode = PlanMode::evaluate;
    const Planned planned = must_fit(question);
    EXPECT_EQ(count(planned.plan, ActivationPolicy::recompute),
              static_cast<std::int64_t>(planned.plan.blocks.size()));
  }
}

TEST(ActivationPolicies, ABlockThatSavesNoTimeKeepsNothing) {
  PlanQuestion question = saving_question({}, "resident");
  for (BlockProfile& block : question.profile.blocks) block.saved_backward = block.backward;
  const Planned planned = planned_with(question, ActivationRule::automatic);
  EXPECT_EQ(count(planned.plan, ActivationPolicy::keep), 0);
}

// Keeping costs forward 0.4 of the 1 ms that it saves backward; then all of it.
TEST(ActivationPolicies, AForwardThatKeepsTakesItsOwnTime) {
  PlanQuestion question = saving_question({}, "resident");
  const Micros keeping{400};
  for (BlockProfile& block : question.profile.blocks) {
    block.saving_forward = block.forward + keeping;
  }
  const Planned planned = planned_with(question, ActivationRule::automatic);
  const Plan& plan = planned.plan;
  int kept = 0;
  for (const Task& task : plan.tasks) {
    if (task.kind != TaskKind::forward) continue;
    const bool keeps = std::ranges::any_of(task.writes, [&](InstanceId id) {
      return plan.values[plan.instances[id].value].kind == ValueKind::saved;
    });
    kept += keeps ? 1 : 0;
    const Micros once = question.profile.blocks.front().forward + question.profile.task_overhead;
    EXPECT_EQ(task.micros, keeps ? once + keeping : once) << task.name;
  }
  EXPECT_EQ(kept, saving_blocks(plan) * kMicroBatches);

  for (BlockProfile& block : question.profile.blocks) {
    block.saving_forward = block.forward + kRecompute;
  }
  EXPECT_EQ(count(planned_with(question, ActivationRule::automatic).plan, ActivationPolicy::keep),
            0);
}

// The lists are of the chain alone, so a question with more memory tries all that one with less
// does.
TEST(ActivationPolicies, StreamingListsShareTheBlocksByDensity) {
  const PlanQuestion question = saving_question({}, "fuyou");
  const Chain chain = make_chain(question);
  const auto lists = streaming_policies(chain, one_slot_each(chain), kMicroBatches, false);
  EXPECT_NE(std::find(lists.begin(), lists.end(), keep_all(chain, one_slot_each(chain))),
            lists.end());
  EXPECT_NE(std::find(lists.begin(), lists.end(),
                      swap_all(chain, one_slot_each(chain), ActivationPolicy::swap_to_host)),
            lists.end());
  EXPECT_EQ(std::find(lists.begin(), lists.end(), keep_none(chain)), lists.end());
  const auto to_drive = ActivationPolicy::swap_to_drive;
  const auto to_drives = streaming_policies(chain, one_slot_each(chain), kMicroBatches, true);
  EXPECT_NE(std::ranges::find(to_drives, swap_all(chain, one_slot_each(chain), to_drive)),
            to_drives.end());
  for (const ActivationPolicies& policies : to_drives)
    EXPECT_GT(std::ranges::count(policies, to_drive), 0);
}

TEST(ActivationPolicies, TellsWhatBlocksDo) {
  const Planned planned = planned_with(saving_question({}, "resident"), ActivationRule::automatic);
  EXPECT_EQ(policies_text(planned.plan), "9 blocks keep, 2 recompute");
}

}  // namespace
}  // namespace ferry
