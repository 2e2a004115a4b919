#include "planner/cuts/asked_stages.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "base/error.h"
#include "planner/planner.h"
#include "planner/sample_questions.h"

namespace ferry {
namespace {

PlanQuestion on_devices(int devices) {
  SampleMachine machine;
  machine.devices = devices;
  return sample_question({.layers = 2}, machine, 2);
}

std::string key_of_error(const std::function<void()>& ask) {
  try {
    ask();
  } catch (const JobKeyError& error) {
    EXPECT_EQ(std::string(error.what()).rfind(error.key() + ": ", 0), 0U) << error.what();
    return error.key();
  }
  return "none";
}

TEST(AskedStages, StagesTakeTheNamedDevicesInTurnOrThereAndBack) {
  PlanQuestion question = on_devices(4);
  EXPECT_EQ(asked_map(question, 5), (std::vector<int>{0, 1, 2, 3, 0}));
  question.options.devices = {{2, 0, 1}};
  EXPECT_EQ(asked_map(question, 5), (std::vector<int>{2, 0, 1, 2, 0}));
  question.options.map = MapRule::v;
  EXPECT_EQ(asked_map(question, 5), (std::vector<int>{2, 0, 1, 1, 0}));
}

TEST(AskedStages, SlotsAreDevicesOnceOrStagesThatKeepToThem) {
  PlanQuestion question = on_devices(2);
  question.options.devices = {{1, 0}};
  EXPECT_EQ(asked_slots(question, 5), (std::vector<int>{1, 0}));
  question.options.devices = {{1, 0, 1, 0, 1}};
  EXPECT_EQ(asked_slots(question, 5), (std::vector<int>{1, 0}));
  for (const std::vector<int>& devices :
       {std::vector<int>{}, {1}, {0, 0}, {0, 2}, {1, 0, 0, 1, 1}}) {
    question.options.devices = devices;
    EXPECT_EQ(key_of_error([&] { asked_slots(question, 5); }), "plan.devices");
  }
}

TEST(AskedStages, EveryStrategyRefusesTheSameMistakesByTheirKey) {
  for (const char* strategy : {"1f1b", "gpipe", "interleaved", "mixed-pipe", "mobius"}) {
    PlanQuestion question = on_devices(2);
    question.strategy = strategy;
    for (const std::vector<int>& devices : {std::vector<int>{}, {0, 7}}) {
      question.options.devices = devices;
      EXPECT_EQ(key_of_error([&] { make_plan(question); }), "plan.devices") << strategy;
    }
    question.options.devices.reset();
    question.options.stages = {{1, 1}};
    EXPECT_EQ(key_of_error([&] { make_plan(question); }), "plan.stages") << strategy;
  }
}

// One large stage waits for all of its weights, so any other cut is faster.
TEST(AskedStages, NoOtherStagesArePlannedHoweverSlowTheyAre) {
  for (const char* strategy :
       {"mobius", "roundpipe", "harmony-pp", "harmony-dp", "zero", "fuyou"}) {
    PlanQuestion question = sample_question({.layers = 3}, {.link_rate = 1e8}, 2);
    question.strategy = strategy;
    const int blocks = static_cast<int>(question.model.blocks.size());
    question.options.stages = {{2, blocks - 3, 1}};
    const Planned planned = must_fit(question);
    for (const BlockId b : planned.plan.blocks.ids()) {
      const int stage = b < BlockId(2) ? 0 : b < BlockId(blocks - 1) ? 1 : 2;
      EXPECT_EQ(planned.plan.blocks[b].stage, stage) << strategy << ", block " << b.index();
    }
  }
}

}  // namespace
}  // namespace ferry
