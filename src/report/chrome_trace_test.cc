#include "report/chrome_trace.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "exec/simulator.h"
#include "plan/sample_plans.h"

namespace ferry {
namespace {

Plan two_tasks() {
  return parse_plan(
      "ferry-plan 1\nstrategy test\n"
      "step train micro_batches=1 micro_batch_size=1 sequence=1 precision=fp32\n"
      "place host kind=host budget=0 workspace=0\n"
      "place gpu0 kind=device budget=0 workspace=0\n"
      "resource load kind=host place=host\n"
      "resource up kind=copy place=gpu0 rate=1e6\n"
      "task \"X\\ kind=load on=load micros=2\n"
      "task X>gpu0 kind=copy on=up bytes=3 after=\"X\\\n",
      "test");
}

TEST(ChromeTrace, TheTraceIsJsonWithNamedTracksSpansAndFlows) {
  const Plan plan = two_tasks();
  const auto trace = nlohmann::json::parse(to_chrome_trace(plan, simulate(plan, 1).timeline));
  std::map<std::string, std::vector<nlohmann::json>> events;
  for (const auto& event : trace.at("traceEvents")) events[event.at("ph")].push_back(event);

  EXPECT_EQ(events["M"].size(), 4U);
  EXPECT_EQ(events["M"][1].at("args").at("name"), "gpu0");
  EXPECT_EQ(events["M"][3].at("name"), "thread_name");
  EXPECT_EQ(events["M"][3].at("args").at("name"), "up");
  ASSERT_EQ(events["X"].size(), 2U);
  EXPECT_EQ(events["X"][0].at("name"), "\"X\\");
  EXPECT_EQ(events["X"][1].at("name"), "X>gpu0");
  EXPECT_EQ(events["X"][1].at("ts"), 2);
  EXPECT_EQ(events["X"][1].at("dur"), 3);
  EXPECT_EQ(events["X"][1].at("pid"), 1);
  EXPECT_EQ(events["X"][1].at("tid"), 1);
  EXPECT_EQ(events["X"][1].at("args").at("bytes"), 3);
  ASSERT_EQ(events["s"].size(), 1U);
  ASSERT_EQ(events["f"].size(), 1U);
  EXPECT_EQ(events["s"][0].at("id"), events["f"][0].at("id"));
  EXPECT_EQ(events["s"][0].at("tid"), 0);
  EXPECT_EQ(events["f"][0].at("tid"), 1);
}

TEST(ChromeTrace, ATraceOfAPlanHoldsEveryTaskOfEveryStep) {
  SampleShape shape;
  shape.devices = 2;
  const Plan plan = sample_mobius(shape);
  const auto trace = nlohmann::json::parse(to_chrome_trace(plan, simulate(plan, 3).timeline));
  std::set<std::pair<int, std::string>> seen;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    EXPECT_GE(event.at("dur").get<double>(), 0);
    seen.emplace(event.at("args").at("step"), event.at("name"));
  }
  EXPECT_EQ(seen.size(), plan.tasks.size() * 3);
}

TEST(ChromeTrace, AnEmptyTimelineIsATraceToo) {
  EXPECT_TRUE(nlohmann::json::accept(to_chrome_trace(two_tasks(), {})));
  EXPECT_TRUE(nlohmann::json::accept(to_chrome_trace({}, {})));
}

}  // namespace
}  // namespace ferry
