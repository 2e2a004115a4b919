// What goes straight between devices: the bits of one device that holds everything, no hazard, and
// a way that brings wrong bytes is refused before the first step.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "plan/verify.h"
#include "report/chrome_trace.h"
#include "train/peer_check.h"
#include "training_sample.h"

namespace ferry {
namespace {

constexpr double kP2p = 200e6;  // what simulated devices' copies are throttled to

PlanQuestion with_p2p(PlanQuestion question) {
  for (MachineDevice& device : question.machine.devices) {
    device.up = device.down = {1e9};
    device.p2p = {50e9};
  }
  return question;
}

long copies_between(const Plan& plan) {
  return std::ranges::count_if(plan.tasks,
                               [&](const Task& task) { return goes_between_devices(plan, task); });
}

struct Case {
  const char* strategy;
  int devices;
  int micro_batches;
  bool clips;
  bool tied;
};

class P2pRun : public testing::TestWithParam<Case> {};

TEST_P(P2pRun, GivesTheBitsOfOneDeviceWithoutHazards) {
  const Case& one = GetParam();
  PlanQuestion asked = tied_question(one.strategy, one.devices, one.micro_batches);
  if (!one.tied) {
    asked = training_question(one.devices, one.micro_batches);
    asked.strategy = one.strategy;
    set_device_budgets(asked, 64_MiB);
  }
  if (asked.strategy == "mobius") set_device_budgets(asked, one.tied ? 2_MiB : 720_KiB);
  asked.clips = one.clips;
  const Conditions conditions{.clip = one.clips ? 1.0 : 0.0, .p2p = kP2p};
  const Plan plan = planned(with_p2p(asked));
  ASSERT_GT(copies_between(plan), 0);
  const Outcome outcome = run(asked, plan, {}, conditions);
  for (const Hazard& hazard : outcome.hazards) ADD_FAILURE() << to_string(hazard);
  EXPECT_TRUE(outcome.drains.empty());

  asked.strategy = "resident";
  set_device_budgets(asked, 64_MiB);
  const Outcome resident = run(asked, planned(asked), {}, conditions);
  EXPECT_EQ(outcome.losses, resident.losses);
  EXPECT_EQ(outcome.norms, resident.norms);
  EXPECT_EQ(outcome.weights, resident.weights);
}

INSTANTIATE_TEST_SUITE_P(
    Plans, P2pRun,
    testing::Values(Case{"1f1b", 2, 1, true, true}, Case{"1f1b", 4, 4, true, true},
                    Case{"1f1b", 2, 3, false, false}, Case{"gpipe", 4, 3, true, true},
                    Case{"interleaved", 2, 4, true, true}, Case{"mixed-pipe", 2, 3, false, true},
                    Case{"mobius", 2, 1, true, false}, Case{"mobius", 4, 3, true, false},
                    Case{"mobius", 2, 4, false, true}, Case{"mobius", 4, 4, true, true},
                    Case{"roundpipe", 4, 4, true, true}, Case{"harmony-pp", 4, 3, true, false},
                    Case{"harmony-dp", 2, 4, true, true}),
    [](const auto& one) {
      const Case& is = one.param;
      std::string name = std::string(is.strategy) + "_" + std::to_string(is.devices) + "_" +
                         std::to_string(is.micro_batches) + (is.clips ? "_clipped" : "") +
                         (is.tied ? "_tied" : "");
      std::ranges::replace(name, '-', '_');
      return name;
    });

Plan pipeline() { return planned(with_p2p(tied_question("1f1b", 2))); }

TEST(P2p, TheTimelineShowsTheCopies) {
  const PlanQuestion asked = tied_question("1f1b", 2);
  const Plan plan = pipeline();
  Training training(asked, plan, /*checked=*/false, {}, {.p2p = kP2p});
  Observer nobody;
  drive(plan, {0, 2}, training.runner, nobody);
  Timeline timeline;
  timeline.spans = training.runner.take_spans();
  long seen = 0;
  for (const Span& span : timeline.spans) {
    const Task& task = plan.tasks[span.run.task];
    if (!goes_between_devices(plan, task)) continue;
    ++seen;
    const Micros least = from_seconds(static_cast<double>(task.bytes.count) / kP2p);
    EXPECT_GE(span.end - span.start, least * 0.9) << task.name;
  }
  EXPECT_EQ(seen, 2 * copies_between(plan));
  EXPECT_NE(to_chrome_trace(plan, timeline).find("gpu0.acts_to_gpu1"), std::string::npos);
}

TEST(P2p, ADroppedWaitForACopyIsAHazard) {
  const PlanQuestion asked = tied_question("1f1b", 2);
  Plan plan = pipeline();
  const auto reader = std::ranges::find_if(plan.tasks, [&](const Task& task) {
    return task.kind == TaskKind::forward && std::ranges::any_of(task.after, [&](TaskId id) {
             return goes_between_devices(plan, plan.tasks[id]);
           });
  });
  ASSERT_NE(reader, plan.tasks.end());
  erase_if(reader->after, [&](TaskId id) { return goes_between_devices(plan, plan.tasks[id]); });
  ASSERT_TRUE(verify(plan).has_value());
  const std::vector<Hazard> hazards = hazards_of(asked, plan, {.p2p = kP2p});
  EXPECT_TRUE(std::ranges::any_of(hazards, [](const Hazard& hazard) {
    return to_string(hazard).find("acts_to_gpu1") != std::string::npos;
  })) << (hazards.empty() ? "no hazard at all" : to_string(hazards.front()));
}

TEST(P2p, ACopyThatFailsIsReportedWithItsTask) {
  const PlanQuestion asked = tied_question("1f1b", 2, 1);
  Plan plan = planned(with_p2p(asked));
  Training training(asked, plan, /*checked=*/false);
  // The first copies are of tokens and weights; the first between devices is the third or so.
  Observer nobody;
  simdev_fail_copy(3);
  EXPECT_THROW(drive(plan, {0, 2}, training.runner, nobody), ResourceError);
}

// What crosses between them is copied within that device.
TEST(P2p, SeveralLogicalDevicesOnOneGiveItsBits) {
  PlanQuestion asked = tied_question("1f1b", 2);
  const Outcome outcome = run(asked, pipeline(), {}, {.on_one_device = true});
  for (const Hazard& hazard : outcome.hazards) ADD_FAILURE() << to_string(hazard);
  asked.strategy = "resident";
  const Outcome resident = run(asked, planned(asked));
  EXPECT_EQ(outcome.losses, resident.losses);
  EXPECT_EQ(outcome.weights, resident.weights);
}

TEST(P2p, AWayThatBringsWrongBytesIsRefusedAndNamed) {
  const PlanQuestion asked = tied_question("1f1b", 2);
  const Plan plan = pipeline();
  const Plan* const one = &plan;
  const OpenDevices devices = open_devices(64_MiB, /*checked=*/true);
  Places places({&one, 1}, devices.names(), asked.machine);
  EXPECT_NO_THROW(check_peers({&one, 1}, places));
  simdev_spoil_copies(1, 0);
  try {
    check_peers({&one, 1}, places);
    FAIL() << "wrong bytes went unnoticed";
  } catch (const ResourceError& error) {
    const std::string text = error.what();
    EXPECT_TRUE(
        text.starts_with("copies straight from gpu1 (sim:1) to gpu0 (sim:0) arrive with "
                         "wrong bytes: sent "))
        << text;
    EXPECT_NE(text.find("try: plan.without: p2p"), std::string::npos) << text;
  }
  EXPECT_TRUE(simdev_hazards().empty());
}

TEST(P2p, WhatNoPlanUsesIsNotChecked) {
  const PlanQuestion asked = tied_question("1f1b", 2);
  const Plan plan = planned(asked);
  const Plan* const one = &plan;
  const OpenDevices devices = open_devices(64_MiB, /*checked=*/true);
  Places places({&one, 1}, devices.names(), asked.machine);
  simdev_spoil_copies(1, 0);
  EXPECT_NO_THROW(check_peers({&one, 1}, places));
}

}  // namespace
}  // namespace ferry
