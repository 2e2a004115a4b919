#include "papers/ftpipe/pipeline_programs.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/error.h"
#include "papers/papers.h"
#include "papers/timing/program_questions.h"
#include "planner/orders/pipeline.h"
#include "planner/sample_questions.h"

namespace ferry {
namespace {

TEST(PipelinePrograms, EqualBlocksHaveTheClosedFormsBubble) {
  for (const char* strategy : {"gpipe", "1f1b"}) {
    const Planned planned =
        must_fit(pure_question(strategy, 4, 8, equal_profile(8, 10, 30)), papers::answer);
    EXPECT_NEAR(planned.report.figures.at("bubble"), 1 - 8.0 / 11, 1e-12);
    EXPECT_NEAR(planned.prediction.step.count, 8 * 80 / (8.0 / 11 * 1), 1e-6);
    EXPECT_EQ(planned.report.figures.at("makespan"), planned.prediction.step.count);
    EXPECT_EQ(planned.report.figures.at("staleness_max"), 0);
    EXPECT_TRUE(planned.plan.timing_only);
  }
}

TEST(PipelinePrograms, InterleavedHasItsClosedFormsBubble) {
  const PlanQuestion question = pure_question("interleaved", 8, 16, equal_profile(48, 10, 30));
  const Planned planned = must_fit(question, papers::answer);
  EXPECT_NEAR(1 - planned.report.figures.at("bubble"), 0.8205, 5e-5);
  EXPECT_EQ(planned.report.stages.size(), 16U);
  EXPECT_EQ(planned.report.stages[1].first, 3);
  PlanQuestion odd = question;
  odd.micro_batches = 12;
  EXPECT_THROW(papers::answer(odd), UserError);
}

TEST(PipelinePrograms, StagesHoldWhatTheTableSays) {
  const auto held = [](const char* strategy) {
    return must_fit(pure_question(strategy, 4, 6, equal_profile(4, 10, 30)), papers::answer)
        .report.series.at("in_flight");
  };
  EXPECT_EQ(held("gpipe"), (std::vector<double>{6, 6, 6, 6}));
  EXPECT_EQ(held("1f1b"), (std::vector<double>{4, 3, 2, 1}));
  EXPECT_EQ(held("async-1f1b"), (std::vector<double>{4, 3, 2, 1}));
}

// Equal blocks on eight GPUs with two stages each, in turn and folded.
TEST(PipelinePrograms, TheMapIsAnyVector) {
  PlanQuestion question = pure_question("gpipe", 8, 8, equal_profile(48, 20, 60));
  question.options.chunks = 2;
  EXPECT_EQ(must_fit(question, papers::answer).prediction.step.count, 5520);
  question.options.map = MapRule::v;
  EXPECT_EQ(must_fit(question, papers::answer).prediction.step.count, 7200);
  question.options.devices = std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(must_fit(question, papers::answer).prediction.step.count, 5520);
  question.options.devices = std::vector<int>{0, 1, 2};
  EXPECT_THROW(papers::answer(question), UserError);
  question.options.devices = std::nullopt;
  question.options.stages = std::vector<int>{40, 4};
  EXPECT_THROW(papers::answer(question), UserError);
}

TEST(PipelinePrograms, AsynchronousStepsHaveNoBubbleAndTheTablesStaleness) {
  const Planned planned =
      must_fit(pure_question("async-1f1b", 8, 4, equal_profile(8, 10, 30)), papers::answer);
  EXPECT_NEAR(planned.prediction.step.count, 4 * 40, 1e-9);
  EXPECT_NEAR(planned.report.figures.at("bubble"), 0, 1e-12);
  EXPECT_NEAR(planned.report.figures.at("bubble_first"), 1 - 4.0 / 11, 1e-12);
  EXPECT_EQ(planned.report.series.at("staleness_min").front(), 1);
  EXPECT_EQ(planned.report.series.at("staleness_max").front(), 2);
  EXPECT_NEAR(planned.report.series.at("staleness_mean").front(), 1.75, 1e-12);
}

// A plan of one steady step as what it says: stages with times and devices, and how many plans
// before a backward its forward was.
class WrittenPipeline {
 public:
  explicit WrittenPipeline(const Plan& plan) : plan_(plan) {
    for (TaskId id = 0; id < static_cast<TaskId>(plan.tasks.size()); ++id) {
      const Task& task = plan.tasks[static_cast<std::size_t>(id)];
      const PipelineTask about = task_of(task);
      ids_[about] = id;
      const auto s = static_cast<std::size_t>(about.stage);
      if (s >= pipeline_.device.size()) {
        pipeline_.device.resize(s + 1);
        pipeline_.forward.resize(s + 1);
        pipeline_.backward.resize(s + 1);
      }
      pipeline_.device[s] = plan.resources[static_cast<std::size_t>(task.resource)].place - 1;
      (about.backward ? pipeline_.backward : pipeline_.forward)[s] = task.micros.count;
    }
    pipeline_.devices = static_cast<int>(plan.resources.size());
  }

  Pipeline with(int micro_batches) const {
    Pipeline result = pipeline_;
    result.micro_batches = micro_batches;
    return result;
  }

  // What the devices run of the first `micro_batches`, when the plan runs again and again.
  DeviceOrders orders(int micro_batches) const {
    DeviceOrders result(static_cast<std::size_t>(pipeline_.devices));
    const int runs = micro_batches / plan_.micro_batches + 40;
    for (int run = 0; run < runs; ++run) {
      for (const Task& task : plan_.tasks) {
        PipelineTask about = task_of(task);
        about.micro_batch += (run - runs_behind(about)) * plan_.micro_batches;
        if (about.micro_batch < 0 || about.micro_batch >= micro_batches) continue;
        result[static_cast<std::size_t>(pipeline_.device[static_cast<std::size_t>(about.stage)])]
            .push_back(about);
      }
    }
    return result;
  }

 private:
  static PipelineTask task_of(const Task& task) {
    const std::string& name = task.name;  // "B.3.1"
    const std::size_t dot = name.find('.', 2);
    return {name[0] == 'B', std::stoi(name.substr(2, dot - 2)), std::stoi(name.substr(dot + 1))};
  }

  // Runs of the plan from the first stage's forward of this micro-batch to this task.
  int runs_behind(const PipelineTask& task) const {
    if (!task.backward && task.stage == 0) return 0;
    const Task& written = plan_.tasks[static_cast<std::size_t>(ids_.at(task))];
    const bool before = !written.after_previous.empty();
    const TaskId input = before ? written.after_previous.front() : written.after.front();
    return (before ? 1 : 0) + runs_behind(task_of(plan_.tasks[static_cast<std::size_t>(input)]));
  }

  const Plan& plan_;
  Pipeline pipeline_;
  std::map<PipelineTask, TaskId> ids_;
};

// 16 stages of unequal times on eight devices, or eight in a window.
TEST(PipelinePrograms, FiguresAreThoseOfTheWrittenPlan) {
  Profile profile = equal_profile(48, 20, 60);
  profile.blocks.front().activation = 3_B;
  profile.blocks.push_back(profile.blocks.front());
  profile.blocks.back().forward = {7};
  profile.blocks.back().backward = {21};
  for (std::size_t b = 24; b < 48; ++b) profile.chain[b] = 1;
  for (const MapRule map : {MapRule::sequential, MapRule::v, MapRule::automatic}) {
    PlanQuestion question = pure_question("async-1f1b", 8, 5, profile);
    question.options.map = map;
    question.options.chunks = map == MapRule::automatic ? 1 : 2;
    if (map == MapRule::automatic) question.papers.window = 5;
    const Planned planned = must_fit(question, papers::answer);
    const WrittenPipeline written(planned.plan);
    const Pipeline alone = written.with(5);
    EXPECT_NEAR(planned.report.figures.at("makespan"),
                earliest_times(alone, written.orders(5)).makespan, 1e-9);
    const std::vector<int> held = stages_in_flight(written.with(400), written.orders(400));
    EXPECT_EQ(planned.report.series.at("in_flight"),
              (std::vector<double>(held.begin(), held.end())));
    std::vector<double> bytes(8, 0.0);  // blocks have no weights: inputs in flight alone
    for (std::size_t s = 1; s < held.size(); ++s) {
      bytes[static_cast<std::size_t>(alone.device[s])] += 3 * held[s];
    }
    EXPECT_EQ(planned.report.series.at("device_bytes"), bytes);
  }
}

TEST(PipelinePrograms, AWindowBoundsStalenessAndCostsTime) {
  PlanQuestion question = pure_question("async-1f1b", 8, 4, equal_profile(8, 10, 30));
  question.papers.window = 5;
  const Planned planned = must_fit(question, papers::answer);
  EXPECT_EQ(planned.report.figures.at("staleness_max"), 1);
  EXPECT_EQ(planned.report.series.at("in_flight").front(), 5);
  // Five micro-batches go round while one takes 8 (10 + 30), and wait for each other a little.
  EXPECT_GE(planned.prediction.step.count, 4 * 320 / 5.0);
  EXPECT_LE(planned.prediction.step.count, 1.25 * 4 * 320 / 5.0);
}

TEST(PipelinePrograms, SeveralStagesPerDeviceTakeAPlannedOrder) {
  Profile profile = equal_profile(48, 20, 60);
  profile.blocks.push_back(profile.blocks.front());
  profile.blocks.back().key = "decoder";
  profile.blocks.back().forward = {7};
  profile.blocks.back().backward = {21};
  for (std::size_t b = 24; b < 48; ++b) profile.chain[b] = 1;
  PlanQuestion question = pure_question("async-1f1b", 8, 5, profile);
  question.options.stages = std::vector<int>(16, 3);
  for (const MapRule map : {MapRule::sequential, MapRule::v}) {
    question.options.map = map;
    const Planned planned = must_fit(question, papers::answer);
    EXPECT_NEAR(planned.prediction.step.count, 5 * 324, 1e-6);
    EXPECT_NEAR(planned.report.figures.at("bubble"), 0, 1e-9);
    EXPECT_EQ(planned.plan.blocks.back().stage, 15);
  }
  question.micro_batches = 1;
  EXPECT_NEAR(must_fit(question, papers::answer).prediction.step.count, 324, 1e-6);
}

}  // namespace
}  // namespace ferry
