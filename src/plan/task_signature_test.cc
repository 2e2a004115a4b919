#include "plan/task_signature.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "plan/sample_plans.h"

namespace ferry {
namespace {

// The names of what write() lets a task read, then of what it lets it write.
std::string written(const Plan& plan, TaskKind kind, int block, int micro_batch, bool keeps = false,
                    const Listing& listing = {}) {
  Task task;
  task.kind = kind;
  task.block = BlockId(block);
  task.micro_batch = micro_batch;
  std::string reads, writes;
  const auto where = [&](const Access& access, bool write) {
    const ValueKey& key = access.value;
    (write ? writes : reads) += " " + value_name({key.kind, key.block, key.micro_batch, {}});
    return InstanceId(0);
  };
  TaskSignatures(plan).write(task, keeps, where, listing);
  return reads + " >" + writes;
}

// Embedding, attention, mlp, norm and a tied head; two micro-batches.
Plan tied() {
  SampleShape shape;
  shape.layers = 1;
  shape.micro_batches = 2;
  shape.tied = true;
  return sample_resident(shape);
}

TEST(TaskSignatures, TheFirstMicroBatchStartsASumAndTheLastEndsIt) {
  const Plan plan = tied();
  EXPECT_EQ(written(plan, TaskKind::backward, 2, 0), " A.2.0 W.2 dA.3.0 > dA.2.0 G.2");
  EXPECT_EQ(written(plan, TaskKind::backward, 2, 1), " A.2.1 W.2 dA.3.1 G.2 > dA.2.1 G.2 N.2");
}

TEST(TaskSignatures, TheEndsOfTheChainReadTokens) {
  const Plan plan = tied();
  EXPECT_EQ(written(plan, TaskKind::forward, 0, 1), " W.0 X.1 > A.1.1");
  EXPECT_EQ(written(plan, TaskKind::backward, 4, 0), " A.4.0 W.0 X.0 > dA.4.0 L.0 G.4");
}

TEST(TaskSignatures, TheOwnerOfATiedWeightAddsTheHeadsSumAtTheEnd) {
  const Plan plan = tied();
  EXPECT_EQ(written(plan, TaskKind::backward, 0, 0), " X.0 dA.1.0 > G.0");
  EXPECT_EQ(written(plan, TaskKind::backward, 0, 1), " X.1 dA.1.1 G.0 G.4 > G.0 N.0");
}

TEST(TaskSignatures, WhatForwardKeepsBackwardReads) {
  const Plan plan = tied();
  EXPECT_EQ(written(plan, TaskKind::forward, 1, 0, true), " W.1 A.1.0 > A.2.0 K.1.0");
  EXPECT_EQ(written(plan, TaskKind::backward, 1, 0, true), " A.1.0 W.1 dA.2.0 K.1.0 > dA.1.0 G.1");
  EXPECT_EQ(written(plan, TaskKind::forward, 0, 0, true), " W.0 X.0 > A.1.0");
}

TEST(TaskSignatures, AStepThatClipsCollectsEveryNormAndLossAndScalesUpdates) {
  Plan plan = tied();
  EXPECT_EQ(written(plan, TaskKind::clip, -1, -1), " N.0 N.1 N.2 N.3 L.0 L.1 > C");
  EXPECT_EQ(written(plan, TaskKind::update, 1, -1), " W.1 S.1 G.1 C > W.1 S.1");
  plan.clips = false;
  EXPECT_EQ(written(plan, TaskKind::clip, -1, -1), " N.0 N.1 N.2 N.3 L.0 L.1 >");
  EXPECT_EQ(written(plan, TaskKind::update, 1, -1), " W.1 S.1 G.1 > W.1 S.1");
}

TEST(TaskSignatures, TheLastBackwardRoundsASumAndItsUpdateReadsThat) {
  Plan plan = tied();
  plan.gradients = Precision::bf16;
  plan.values.add({ValueKind::rounded, BlockId(2), -1, 2_B});
  EXPECT_EQ(written(plan, TaskKind::backward, 2, 0), " A.2.0 W.2 dA.3.0 > dA.2.0 G.2");
  EXPECT_EQ(written(plan, TaskKind::backward, 2, 1), " A.2.1 W.2 dA.3.1 G.2 > dA.2.1 G.2 N.2 R.2");
  EXPECT_EQ(written(plan, TaskKind::update, 2, -1), " W.2 S.2 R.2 C > W.2 S.2");
  EXPECT_EQ(written(plan, TaskKind::update, 1, -1), " W.1 S.1 G.1 C > W.1 S.1");
}

TEST(TaskSignatures, AListingOrdersPartsAndTakesWhatIsAtWill) {
  const Plan plan = tied();
  constexpr std::array kOrder = {Part::output_gradient, Part::norm, Part::gradient};
  EXPECT_EQ(written(plan, TaskKind::backward, 2, 1, false, {kOrder, {}}),
            " dA.3.1 G.2 A.2.1 W.2 > N.2 G.2 dA.2.1");
  EXPECT_EQ(written(plan, TaskKind::backward, 0, 0, false, {{}, Part::weight}),
            " X.0 W.0 dA.1.0 > G.0");
}

}  // namespace
}  // namespace ferry
