#include "report/run_history.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "report/run_page.h"

namespace ferry {
namespace {

RunStep step(int number, double loss, double norm) {
  RunStep made;
  made.step = number;
  made.loss = loss;
  made.lr = 0.5;
  made.grad_norm = norm;
  made.tokens = 100;
  made.learned = 60;
  made.seconds = 0.25;
  made.tokens_per_second = 400;
  made.stall = 0.125;
  made.peak_bytes = {{"gpu0", 64_B}, {"host", 128_B}};
  return made;
}

TEST(RunHistory, TheTableHasALinePerStepAndTheEvaluationsInTheirs) {
  RunHistory history;
  history.steps = {step(1, 6.25, 1.5), step(2, 6, 1)};
  history.steps[1].peak_bytes.erase("gpu0");
  history.evaluations = {{2, 5.5}};
  EXPECT_EQ(to_csv(history),
            "step,loss,eval_loss,lr,grad_norm,tokens,learned_tokens,step_seconds,"
            "tokens_per_second,stall,peak_bytes_gpu0,peak_bytes_host\n"
            "1,6.25,,0.5,1.5,100,60,0.25,400,0.125,64,128\n"
            "2,6,5.5,0.5,1,100,60,0.25,400,0.125,,128\n");
}

TEST(RunHistory, ALongRunIsDrawnAsGroupsWithTheirLargestNorm) {
  std::vector<RunStep> steps;
  for (int i = 1; i <= 10; ++i) steps.push_back(step(i, i, i == 5 ? 100 : 1));
  const std::vector<RunStep> drawn = drawn_steps(steps, 3);
  ASSERT_EQ(drawn.size(), 3u);
  EXPECT_EQ(drawn[0].step, 4);
  EXPECT_DOUBLE_EQ(drawn[0].loss, 2.5);
  EXPECT_EQ(drawn[1].grad_norm, 100);
  EXPECT_EQ(drawn[2].step, 10);
  EXPECT_EQ(drawn_steps(steps, 10).size(), 10u);
  EXPECT_TRUE(drawn_steps({}, 10).empty());
}

TEST(RunHistory, ThePageHoldsItsDataAsJson) {
  RunHistory history;
  history.name = "</script><b>";
  history.steps = {step(1, 6.25, 1.5)};
  history.evaluations = {{1, 5.5}};
  history.comparison = {{"step", "1.0 s", "1.1 s", 1.1}, {"tokenising", "", "5 MiB", {}}};
  history.facts = {{"torch", "2.13.0"}};
  const std::string page = to_html(history);
  const std::string opener = "<script type=\"application/json\" id=\"data\">";
  const auto begin = page.find(opener) + opener.size();
  const auto data =
      nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin));
  EXPECT_EQ(data["name"], "</script><b>");
  EXPECT_EQ(data["curves"]["loss"], nlohmann::json({6.25}));
  EXPECT_EQ(data["evaluations"], nlohmann::json({{1, 5.5}}));
  EXPECT_EQ(data["comparison"][0]["ratio"], 1.1);
  EXPECT_FALSE(data["comparison"][1].contains("ratio"));
  EXPECT_EQ(data["facts"][0][1], "2.13.0");
}

}  // namespace
}  // namespace ferry
