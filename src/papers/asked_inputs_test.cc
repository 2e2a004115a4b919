// What published tables need beyond a strategy's name comes through keys of the job.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "base/error.h"
#include "papers/ftpipe/t5_fixture.h"
#include "papers/mobius/mobius_experiments.h"
#include "papers/papers.h"
#include "papers/published/paper_models.h"
#include "papers/ratel/fuyou_experiments.h"
#include "papers/ratel/ratel_servers.h"
#include "papers/timing/program_questions.h"
#include "planner/cuts/mapping.h"
#include "planner/orders/orders.h"
#include "planner/sample_questions.h"
#include "spec/job.h"

namespace ferry {
namespace {

// The question with what a job's keys ask, "papers.window=3".
PlanQuestion asked(PlanQuestion question, std::vector<std::string> keys) {
  keys.push_back("papers.pure=true");
  const Job job = parse_job("plan: {profile: by-hand.yaml}", "table.yaml", keys);
  question.strategy = job.strategy;
  question.options = job.plan;
  question.papers = job.papers;
  return question;
}

std::string digits(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

// ---- orders and offsets -----------------------------------------------------------------------

// T5's blocks, decoder layers 0.35 of an encoder layer's time, on eight devices.
PlanQuestion t5_question(int micro_batches) {
  Profile profile = equal_profile(48, 20, 60);
  profile.blocks.push_back(profile.blocks.front());
  profile.blocks.back().key = "decoder";
  profile.blocks.back().forward = {7};
  profile.blocks.back().backward = {21};
  for (std::size_t b = 24; b < 48; ++b) profile.chain[b] = 1;
  return pure_question("async-1f1b", 8, micro_batches, profile);
}

constexpr const char* kT5Stages = "plan.stages=[3,3,3,3,3,3,3,3,3,3,3,3,3,3,3,3]";

struct PeriodicRow {
  const char* map;
  const char* offsets;
  const char* order;
  std::vector<double> device_in_flight;
  double makespan_60, makespan_200;
};

const PeriodicRow kPeriodicRows[] = {
    {"sequential",
     "[244,124,121,209,282,97,115,194]",
     "[F0 B0 B8 F8, B1 F1 F9 B9, F10 B2 B10 F2, B11 B3 F3 F11, B4 B12 F4 F12, B5 F5 F13 B13, "
     "B6 B14 F6 F14, B15 B7 F7 F15]",
     {16, 15, 13, 12, 10, 9, 7, 6},
     22092,
     67452},
    {"v",
     "[253,147,186,48,39,102,179,67]",
     "[B15 F0 B0 F15, B1 B14 F1 F14, B13 B2 F13 F2, F12 B3 B12 F3, B11 F4 B4 F11, B10 F5 F10 B5, "
     "B9 F6 B6 F9, F8 B7 B8 F7]",
     {13, 12, 12, 11, 11, 10, 10, 9},
     21585,
     66945},
};

TEST(AskedInputs, APeriodicOrderWithOffsetsGetsItsLatencyAndWhatIsInFlight) {
  const std::vector<double> in_flight = {12, 11, 10, 9, 8, 7, 6, 5, 4, 4, 3, 3, 2, 2, 1, 1};
  for (const PeriodicRow& row : kPeriodicRows) {
    const std::vector<std::string> keys = {
        "strategy=async-1f1b", kT5Stages, std::string("plan.map=") + row.map,
        std::string("papers.order=") + row.order, std::string("papers.offsets=") + row.offsets};
    for (const auto& [micro_batches, makespan] :
         {std::pair{60, row.makespan_60}, {200, row.makespan_200}}) {
      const Planned planned = must_fit(asked(t5_question(micro_batches), keys), papers::answer);
      const auto& figures = planned.report.figures;
      EXPECT_EQ(planned.report.series.at("in_flight"), in_flight);
      EXPECT_EQ(planned.report.series.at("device_in_flight"), row.device_in_flight);
      EXPECT_NEAR(figures.at("latency_planned"), 3804, 1e-9);
      EXPECT_NEAR(figures.at("makespan_planned"), micro_batches == 60 ? 22920 : 68280, 1e-9);
      EXPECT_NEAR(figures.at("makespan"), makespan, 1e-9);
      EXPECT_NEAR(planned.prediction.step.count, micro_batches * 324, 1e-6);
    }
  }
}

// Stage visits are Mobius's order, which no pipeline strategy has.
TEST(AskedInputs, AnOrderOfAllMicroBatchesTakesItsTime) {
  Pipeline pipeline = t5_pipeline(std::vector<int>(16, 3), cyclic_map(16, 8), 7, 20);
  std::string order;
  for (const auto& tasks : order_of(OrderRule::stage_visit, pipeline)) {
    order += order.empty() ? "[" : ", ";
    for (const PipelineTask& task : tasks) {
      order += std::string(task.backward ? " B" : " F") + std::to_string(task.stage) + "." +
               std::to_string(task.micro_batch);
    }
  }
  const Planned planned =
      must_fit(asked(t5_question(20), {"strategy=gpipe", kT5Stages, "papers.order=" + order + "]"}),
               papers::answer);
  EXPECT_EQ(planned.report.figures.at("makespan"), 8160);
  EXPECT_EQ(planned.prediction.step.count, 8160);
  EXPECT_EQ(planned.report.series.at("in_flight"), std::vector<double>(16, 20));
}

TEST(AskedInputs, AnOrderThatIsNoneIsRefused) {
  struct Case {
    const char* strategy;
    const char* order;
    const char* said;
  };
  for (const Case& one :
       {Case{"gpipe", "[F0.0 B0.0]", "of 1 devices; expected one entry for each of 2"},
        Case{"gpipe", "[F0.0 B0.0, F1 B1]", "'F1' is no task"},
        Case{"gpipe", "[F0.0 B0.0, F1.0 B2.0]", "'B2.0' is no task"},
        Case{"gpipe", "[F0.0 F1.0, B0.0 B1.0]", "'F1.0' stands at device 0"},
        Case{"gpipe", "[F0.0 F0.0, F1.0 B1.0]", "'F0.0' stands twice"},
        Case{"gpipe", "[F0.0 B0.0, F1.0]", "3 tasks; expected 4"},
        Case{"gpipe", "[B0.0 F0.0, F1.0 B1.0]", "wait for each other"},
        Case{"async-1f1b", "[F0.0 B0.0, F1.0 B1.0]", "'F0.0' is no task"}}) {
    PlanQuestion question = pure_question("", 2, 1, equal_profile(2, 10, 30));
    question = asked(question, {std::string("strategy=") + one.strategy,
                                std::string("papers.order=") + one.order});
    try {
      papers::answer(question);
      ADD_FAILURE() << one.order;
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find(one.said), std::string::npos) << error.what();
    }
  }
  const PlanQuestion two = pure_question("", 2, 1, equal_profile(2, 10, 30));
  EXPECT_THROW(papers::answer(asked(two, {"strategy=async-1f1b", "papers.offsets=[0,0]"})),
               UserError);
  EXPECT_THROW(papers::answer(asked(two, {"strategy=gpipe", "papers.order=[F0.0 B0.0, F1.0 B1.0]",
                                          "papers.offsets=[0,0]"})),
               UserError);
}

// ---- Ratel's server ---------------------------------------------------------------------------

FuyouExperiment row_of(const std::string& figure, const std::string& name) {
  for (const FuyouExperiment& one : fuyou_experiment_questions()) {
    if (one.figure == figure && one.name == name) return one;
  }
  ADD_FAILURE() << "no row " << figure << " " << name;
  return {};
}

// A row's model and server as a profile and a machine file would have them.
PlanQuestion ratel_question(const FuyouProblem& row, const std::string& model, double host_work) {
  PlanQuestion question;
  question.model = paper_model(model);
  const double products = 2 * row.model.parameters * row.model.tokens / row.constants.flops;
  const int layers = row.model.layers;
  question.profile = equal_profile(layers, 1e6 * products / layers, 3e6 * products / layers);
  question.profile.blocks.front().parameters = std::llround(row.model.parameters / layers);
  MachineDevice gpu;
  gpu.name = "gpu0";
  gpu.kind = DeviceKind::cuda;
  gpu.memory = 24_GiB;
  gpu.up = gpu.down = {row.constants.rates.link};
  question.machine.name = "ratel";
  question.machine.devices = {gpu};
  question.machine.host.memory = question.host_budget = {768'000'000'000};
  question.machine.host.update_rate = 1 / host_work;
  Drive drives;
  drives.name = "ssd0";
  drives.capacity = {46'000'000'000'000};
  drives.read = {row.constants.rates.read};
  drives.write = {row.constants.rates.write};
  question.machine.drives = {drives};
  question.micro_batch_size = static_cast<int>(row.model.tokens / 1024);
  question.sequence = 1024;
  return question;
}

// Of one layer's forward.
std::string elementwise_key(const FuyouProblem& row) {
  return "papers.elementwise=" +
         digits(elementwise_seconds(row.constants, row.model) * 1e6 / row.model.layers) + " us";
}

std::string swapped_key(const FuyouProblem& row, double units) {
  return "papers.swapped=" + std::to_string(std::llround(units * interblock_bytes(row.model))) +
         " B";
}

void expect_row(const FuyouExperiment& row, const PlanQuestion& question) {
  const double step = must_fit(question, papers::answer).prediction.step.seconds();
  EXPECT_NEAR(step, simulated_step(row.question), 1e-6 * step) << row.name;
  EXPECT_NEAR(step, row.published, 0.15 * row.published) << row.name;
}

TEST(AskedInputs, RatelsThroughputTakesElementwiseTimeAndAnUpdateThatOccupiesTheDrives) {
  const FuyouExperiment row = row_of("5a", "13B b=32");
  expect_row(row, asked(ratel_question(row.question, "ratel-13b", row.question.constants.host_work),
                        {"strategy=fuyou", elementwise_key(row.question),
                         "papers.update_on_drives=true"}));
}

TEST(AskedInputs, RatelsPoliciesTakeAForcedAmountOfSwappedActivations) {
  const FuyouExperiment all = row_of("9a", "70B b=32 G10 512 GB");
  const double host_work = all.question.constants.host_work;
  const std::vector<std::string> keys = {"strategy=fuyou", elementwise_key(all.question),
                                         "papers.update_on_drives=true"};
  std::vector<std::string> everything = keys;
  everything.insert(everything.end(),
                    {swapped_key(all.question, 17), "plan.activations=swap-to-drive"});
  expect_row(all, asked(ratel_question(all.question, "ratel-70b", host_work), everything));

  const FuyouExperiment inputs = row_of("9a", "70B b=32 inter-block 512 GB");
  std::vector<std::string> least = keys;
  least.push_back(swapped_key(inputs.question, 1));
  expect_row(inputs, asked(ratel_question(inputs.question, "ratel-70b", host_work), least));
  least.back() = swapped_key(inputs.question, 0.99);
  EXPECT_THROW(
      papers::answer(asked(ratel_question(inputs.question, "ratel-70b", host_work), least)),
      UserError);
}

TEST(AskedInputs, RatelsNaiveHandlersStallTheGpuAndStretch) {
  const FuyouExperiment row = row_of("7a", "13B b=16 naive");
  const RatelConstants& server = row.question.constants;
  expect_row(row, asked(ratel_question(row.question, "ratel-13b", server.stage_host_work),
                        {"strategy=fuyou-naive", elementwise_key(row.question),
                         "papers.update_on_drives=true",
                         swapped_key(row.question, swapped_units(row.question)),
                         "papers.launch_stall=" + digits(server.launch_stall),
                         "papers.overlap_stretch=" + digits(server.overlap_stretch)}));
}

TEST(AskedInputs, FuyouHasNoProgramThatKeepsActivations) {
  const FuyouExperiment row = row_of("5a", "13B b=8");
  const PlanQuestion question = ratel_question(row.question, "ratel-13b", 1e-9);
  EXPECT_THROW(papers::answer(asked(question, {"strategy=fuyou", "plan.activations=keep"})),
               UserError);
  EXPECT_NO_THROW(papers::answer(asked(question, {"strategy=fuyou", "plan.activations=swap"})));
}

// Ratel's Figure 7, "+ZeRO": the whole backward, then the optimizer as a stage of its own.
TEST(AskedInputs, ZeroOnDrivesHasTheOptimizersStageBehindBackward) {
  const FuyouExperiment row = row_of("7a", "13B b=8 serial");
  const RatelConstants& server = row.question.constants;
  PlanQuestion question = ratel_question(row.question, "ratel-13b", server.stage_host_work);
  const double layer =
      elementwise_seconds(server, row.question.model) * 1e6 / row.question.model.layers;
  BlockProfile& block = question.profile.blocks.front();
  block.forward += {layer};
  block.backward += {3 * layer};
  block.weights = block.gradients = {2 * block.parameters};
  const double on_host =
      must_fit(asked(question, {"strategy=zero"}), papers::answer).prediction.step.seconds();
  const Planned planned =
      must_fit(asked(question, {"strategy=zero", "papers.states=drives"}), papers::answer);
  EXPECT_EQ(planned.report.figures.at("drive_read_bytes"), 16 * row.question.model.parameters);
  EXPECT_EQ(planned.report.figures.at("drive_written_bytes"), 14 * row.question.model.parameters);
  const double step = planned.prediction.step.seconds();
  EXPECT_NEAR(step, row.published, 0.15 * row.published);
  // Of that stage's 14 P the drives' reads here are 12 P: gradients stay in DRAM.
  const double parameters = row.question.model.parameters;
  const double moved = optimizer_stage(server, parameters) - server.stage_host_work * parameters -
                       2 * parameters / server.rates.read;
  EXPECT_NEAR(step - on_host, moved, 0.01 * moved);
  question.machine.drives.clear();
  EXPECT_THROW(papers::answer(asked(question, {"strategy=zero", "papers.states=drives"})),
               UserError);
}

// ---- Mobius's servers -------------------------------------------------------------------------

TEST(AskedInputs, MobiusOnSharedLinksHasTheTablesRatioToZero) {
  const GptModel model{"8b", 40, 4096};
  PlanQuestion question;
  question.machine = read_machine(FERRY_SOURCE_DIR "/machines/4x3090ti-2+2.yaml");
  const MobiusMeasurement measured = measure_mobius(question.machine, model);
  question.profile = gpt_profile(model, 512, 0.5 * question.machine.devices.front().flops_bf16);
  question.micro_batches = 4;
  question.sequence = 512;
  question.host_budget = question.machine.host.memory;
  ASSERT_EQ(model.layers % measured.stages, 0);
  std::string stages;
  for (int s = 0; s < measured.stages; ++s) {
    stages += (s == 0 ? "" : ",") + std::to_string(model.layers / measured.stages);
  }
  const double mobius = must_fit(asked(question, {"strategy=mobius", "plan.stages=[" + stages + "]",
                                                  "papers.shared_links=true"}),
                                 papers::answer)
                            .prediction.step.seconds();
  const double zero =
      must_fit(asked(question, {"strategy=zero"}), papers::answer).prediction.step.seconds();
  EXPECT_NEAR(zero / mobius, measured.zero_step / measured.mobius_step, 1e-9);
  EXPECT_NEAR(zero / mobius, 4.57388, 1e-5);
}

}  // namespace
}  // namespace ferry
