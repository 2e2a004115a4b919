#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "base/error.h"
#include "base/mutation.h"
#include "plan/plan.h"
#include "plan/sample_plans.h"
#include "plan/verify.h"

namespace ferry {
namespace {

const std::filesystem::path kTestdata =
    std::filesystem::path(FERRY_SOURCE_DIR) / "src/plan/testdata";

constexpr char kHead[] = R"(ferry-plan 1
strategy resident
step train micro_batches=2 micro_batch_size=1 sequence=8 precision=fp32
block 0 kind=embedding stage=0 trainable
pool link capacity=1e9 in_turn
place host kind=host budget=100 workspace=0
resource host.load kind=host place=host
value X.0 bytes=8
instance X.0@host offset=0
)";

std::string error_of(const std::string& text) {
  try {
    parse_plan(text, "a.plan");
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

std::string text_of(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

SampleShape golden_shape() {
  SampleShape shape;
  shape.layers = 2;
  shape.devices = 2;
  shape.tied = true;
  return shape;
}

TEST(PlanText, SamplesEqualTheGoldenFiles) {
  EXPECT_TRUE(to_text(sample_mobius(golden_shape())) == text_of(kTestdata / "mobius.plan"));
  EXPECT_TRUE(to_text(sample_resident(golden_shape())) == text_of(kTestdata / "resident.plan"));
}

TEST(PlanText, FilesReadBackToTheSameText) {
  for (const char* const name : {"mobius.plan", "resident.plan", "smallest.plan"}) {
    SCOPED_TRACE(name);
    const Plan plan = read_plan(kTestdata / name);
    const std::string text = to_text(plan);
    EXPECT_EQ(to_text(parse_plan(text, "again")), text);
    EXPECT_FALSE(verify(plan).has_value());
  }
}

TEST(PlanText, NumbersKeepTheirLastBit) {
  Plan plan = sample_resident({});
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> uniform(-300, 300);
  for (Task& task : plan.tasks) task.micros = {std::pow(10.0, uniform(random))};
  const Plan read = parse_plan(to_text(plan), "numbers");
  for (std::size_t id = 0; id < plan.tasks.size(); ++id) {
    EXPECT_EQ(read.tasks[id].micros, plan.tasks[id].micros);
  }
}

TEST(PlanText, RoundedSumsAreReadBackAndOthersAreNotMentioned) {
  Plan plan = sample_resident({});
  EXPECT_EQ(to_text(plan).find("gradients"), std::string::npos);
  plan.gradients = Precision::bf16;
  plan.values.add({ValueKind::rounded, BlockId(1), -1, 64_B});
  const std::string text = to_text(plan);
  EXPECT_NE(text.find(" gradients=bf16 "), std::string::npos);
  EXPECT_NE(text.find("value R.1 bytes=64\n"), std::string::npos);
  const Plan read = parse_plan(text, "rounded");
  EXPECT_EQ(read.gradients, Precision::bf16);
  EXPECT_EQ(to_text(read), text);
}

TEST(PlanText, PiecesOfStatesAreReadBack) {
  SampleShape shape;
  shape.pieces = 2;
  const std::string text = to_text(sample_mobius(shape));
  EXPECT_NE(text.find("value S.1.1 bytes=15360\n"), std::string::npos);
  EXPECT_NE(text.find("task U.1.1 kind=update on=host.update block=1 piece=1 "), std::string::npos);
  EXPECT_EQ(to_text(parse_plan(text, "pieces")), text);
}

TEST(PlanText, WhatRefreshesIsReadBackAndOthersAreNotMentioned) {
  Plan plan = sample_mobius({});
  EXPECT_EQ(to_text(plan).find("refreshes"), std::string::npos);
  const auto copy = std::ranges::find(plan.tasks, TaskKind::copy, &Task::kind);
  copy->refreshes = true;
  const std::string text = to_text(plan);
  EXPECT_NE(text.find(" bytes=" + std::to_string(copy->bytes.count) + " refreshes "),
            std::string::npos);
  const Plan read = parse_plan(text, "refreshes");
  EXPECT_EQ(std::ranges::count(read.tasks, true, &Task::refreshes), 1);
  EXPECT_EQ(to_text(read), text);
}

TEST(PlanText, CommentsEmptyLinesAndTheOrderOfFieldsDoNotMatter) {
  const Plan plan = parse_plan(std::string("# a plan\n\n") + kHead +
                                   "  task X.0#1 writes=X.0@host\tmicro_batch=0 on=host.load "
                                   "kind=load # the first\r\n#end",
                               "a.plan");
  ASSERT_EQ(plan.tasks.size(), 1U);
  EXPECT_EQ(plan.tasks[0].name, "X.0#1");
  EXPECT_EQ(plan.tasks[0].writes, FewIds<InstanceId>{0});
}

TEST(PlanText, TasksMayComeAfterTasksFurtherDown) {
  const Plan plan = parse_plan(std::string(kHead) +
                                   "task a kind=load on=host.load after_previous=b\n"
                                   "task b kind=load on=host.load after=a\n",
                               "a.plan");
  EXPECT_EQ(plan.tasks[0].after_previous, FewIds<TaskId>{1});
  EXPECT_EQ(plan.tasks[1].after, FewIds<TaskId>{0});
}

struct Mistake {
  const char* line;
  const char* message;
};

TEST(PlanText, MistakesAreNamedWithLineExpectedAndFound) {
  const Mistake mistakes[] = {
      {"block 2 kind=mlp stage=0", "a.plan:11: block: expected 1, found '2'"},
      {"block 1 kind=mlp stage=-1",
       "a.plan:11: stage: expected a whole number from 0 to 2147483647, found '-1'"},
      {"block 1 kind=mlp stage=0 color=red",
       "a.plan:11: block: expected only fields that docs/formats/plan.md lists, found "
       "'color=red'"},
      {"block 1 kind=mlp stage=0 stage=0", "a.plan:11: 'stage' is given twice"},
      {"block 1 kind=mlp stage=0 trainable trainable", "a.plan:11: 'trainable' is given twice"},
      {"pool p", "a.plan:11: pool: expected a field capacity=, found 'none'"},
      {"pool p capacity=nan",
       "a.plan:11: capacity: expected a number that is not negative, found 'nan'"},
      {"pool link capacity=1", "a.plan:11: pool: expected a name that is not taken, found 'link'"},
      {"place gpu0#1 kind=device budget=1 workspace=0",
       "a.plan:11: place: expected a name without #, found 'gpu0#1'"},
      {"place gpu0 kind=disk budget=1 workspace=0",
       "a.plan:11: kind: expected one of device host drive, found 'disk'"},
      {"resource r kind=host place=moon",
       "a.plan:11: place: expected the name of one in this plan, found 'moon'"},
      {"resource r kind=host place=host draw=link",
       "a.plan:11: draw: expected POOL:RATE, found 'link'"},
      {"value X.00 bytes=8",
       "a.plan:11: value: expected a name such as W.0, A.1.0, X.0 or C, found "
       "'X.00'"},
      {"value S.0.01 bytes=8",
       "a.plan:11: value: expected a name such as W.0, A.1.0, X.0 or C, found 'S.0.01'"},
      {"value X.2 bytes=8", "a.plan:11: value: expected a micro-batch of this plan, found 'X.2'"},
      {"value W.1 bytes=8", "a.plan:11: value: expected a block of this plan, found 'W.1'"},
      {"value W.0 bytes=99999999999999999999",
       "a.plan:11: bytes: expected a whole number from 0 to 9223372036854775807, found "
       "'99999999999999999999'"},
      {"instance X.0@host offset=0",
       "a.plan:11: instance: expected 'X.0@host#1', found 'X.0@host'"},
      {"task t kind=load on=host.load writes=X.0@host,",
       "a.plan:11: writes: expected a name behind the last comma, found 'X.0@host,'"},
      {"task t kind=load on=host.load after=u",
       "a.plan:11: task: expected the name of one in this plan, found 'u'"},
      {"task t,u kind=load on=host.load",
       "a.plan:11: task: expected a name of printable ASCII without any of ,=@, found 't,u'"},
      {"task", "a.plan:11: task: expected a name behind it, found ''"},
      {"stage 1",
       "a.plan:11: line: expected strategy, step, block, pool, place, resource, value, "
       "instance or task, found 'stage'"},
      {"strategy twice", "a.plan:11: strategy: expected a single line, found 'twice'"},
  };
  for (const Mistake& mistake : mistakes) {
    EXPECT_EQ(error_of(std::string(kHead) + "# a comment\n" + mistake.line), mistake.message);
  }
}

TEST(PlanText, FilesThatAreNoPlansAreRefused) {
  EXPECT_EQ(error_of(""),
            "a.plan:1: first line: expected 'ferry-plan 1', found 'the end of the "
            "file'");
  EXPECT_EQ(error_of("{}"), "a.plan:1: first line: expected 'ferry-plan 1', found '{}'");
  EXPECT_EQ(error_of("ferry-plan 2"),
            "a.plan:1: version of the plan format: expected 1, found '2'");
  EXPECT_EQ(error_of("ferry-plan 1\nblock 0 kind=mlp stage=0"),
            "a.plan:2: order of lines: expected 'strategy' and 'step' before all others, found "
            "'block'");
  EXPECT_THROW(read_plan(kTestdata / "absent.plan"), UserError);
}

TEST(PlanText, WritingReplacesAFileAtOnce) {
  const auto file = std::filesystem::temp_directory_path() / "ferry_plan_text_test.plan";
  write_plan(sample_resident({}), file);
  const Plan plan = sample_mobius({});
  write_plan(plan, file);
  EXPECT_EQ(to_text(read_plan(file)), to_text(plan));
  auto temporary = file;
  temporary += ".tmp";
  EXPECT_FALSE(std::filesystem::exists(temporary));
  std::filesystem::remove(file);
  EXPECT_THROW(write_plan(plan, file / "below"), ResourceError);
}

// A mutated plan is read or refused with a UserError; what is read can be verified.
TEST(PlanText, HostileTextNeverCrashes) {
  const std::string text = to_text(sample_mobius({}));
  int read = 0;
  for (unsigned seed = 0; seed < 4000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    try {
      const Plan plan = parse_plan(mutated(text, random), "fuzz");
      ++read;
      (void)to_text(plan);
      (void)verify(plan);
    } catch (const UserError&) {
    }
  }
  EXPECT_GT(read, 20);  // not everything stops at the first line
}

TEST(PlanText, AHundredThousandTasksAreReadAndProvedInSeconds) {
  SampleShape shape;
  shape.layers = 96;
  shape.blocks_per_stage = 8;
  shape.devices = 4;
  shape.micro_batches = 120;
  const Plan plan = sample_mobius(shape);
  ASSERT_GT(plan.tasks.size(), 100'000U);
  const std::clock_t start = std::clock();  // of this process: the box may be busy
  EXPECT_FALSE(verify(parse_plan(to_text(plan), "large")).has_value());
  // About 0.6 s, fifty times that under ThreadSanitizer; anything quadratic takes hours.
  EXPECT_LT(std::clock() - start, 120 * CLOCKS_PER_SEC);
}

}  // namespace
}  // namespace ferry
