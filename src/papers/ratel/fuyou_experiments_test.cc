#include "papers/ratel/fuyou_experiments.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace ferry {
namespace {

class FuyouExperiments : public testing::Test {
 protected:
  static void SetUpTestSuite() { rows_ = fuyou_experiments(); }

  static const FuyouExperimentRow& row(const std::string& figure, const std::string& name) {
    for (const FuyouExperimentRow& one : rows_) {
      if (one.figure == figure && one.name == name) return one;
    }
    ADD_FAILURE() << "no row " << figure << " " << name;
    return rows_.front();
  }

  static double seconds(const std::string& figure, const std::string& name) {
    return row(figure, name).ours;
  }

  static double rms_error(const std::string& figure) {
    double sum = 0;
    int count = 0;
    for (const FuyouExperimentRow& one : rows_) {
      if (one.figure != figure) continue;
      sum += one.error() * one.error();
      ++count;
    }
    return std::sqrt(sum / count);
  }

  static std::vector<FuyouExperimentRow> rows_;
};

std::vector<FuyouExperimentRow> FuyouExperiments::rows_;

// As close as each figure came when the constants were fitted; the table allows one error for all.
double error_of_the_fit(const FuyouExperimentRow& row) {
  const auto named = [&](const char* part) { return row.name.find(part) != std::string::npos; };
  if (row.figure == "5a") return 0.10;
  if (row.figure == "7a" || row.figure == "13") return 0.15;
  if (row.figure == "7b" && named("delayed")) return named("b=8") ? 0.25 : 0.15;
  if (row.figure == "7b") return 0.20;
  if (row.figure == "9a") return named("optimized") ? 0.10 : 0.18;
  return 0.12;
}

TEST_F(FuyouExperiments, EveryRowIsAsCloseAsTheFitWas) {
  std::map<std::string, int> rows;
  for (const FuyouExperimentRow& one : rows_) {
    EXPECT_LE(std::abs(one.error()), error_of_the_fit(one))
        << one.figure << " " << one.name << ": ours " << one.ours << " s, published "
        << one.published << " s";
    ++rows[one.figure];
  }
  const std::map<std::string, int> expected = {{"5a", 5}, {"5b", 4},  {"7a", 12}, {"7b", 6},
                                               {"9a", 9}, {"10a", 5}, {"11", 14}, {"13", 5}};
  EXPECT_EQ(rows, expected);
}

TEST_F(FuyouExperiments, FiguresAreCloserThanTheirRows) {
  EXPECT_LE(rms_error("5a"), 0.06);
  EXPECT_LE(rms_error("7a"), 0.08);
}

TEST_F(FuyouExperiments, EachAblationCostsTime) {
  for (const char* batch : {"13B b=16", "13B b=32", "13B b=64"}) {
    const std::string name = batch;
    EXPECT_GT(seconds("7a", name + " serial"), seconds("7a", name + " naive"));
    EXPECT_GT(seconds("7a", name + " naive"), seconds("7a", name + " delayed"));
  }
  EXPECT_GT(seconds("7b", "175B b=16 serial"), seconds("7b", "175B b=16 naive"));
  EXPECT_GT(seconds("7b", "175B b=16 naive"), seconds("7b", "175B b=16 delayed"));
}

TEST_F(FuyouExperiments, NoPolicyBeatsTheModelsChoice) {
  const double best = seconds("9a", "70B b=32 optimized 512 GB") / 32;
  for (const auto& [dram, batch] : {std::pair{"128", 16}, {"256", 24}, {"512", 32}}) {
    const std::string size = std::string(" ") + dram + " GB";
    EXPECT_NEAR(seconds("9a", "70B b=32 optimized" + size) / 32, best, 0.01 * best);
    EXPECT_LE(best, seconds("9a", "70B b=32 G10" + size) / 32);
    EXPECT_LE(best, seconds("9a", "70B b=" + std::to_string(batch) + " inter-block" + size) /
                        batch * (1 + 1e-9));
  }
}

TEST_F(FuyouExperiments, DrivesHelpUntilTheHostBinds) {
  const double one = seconds("10a", "135B b=24 drives=1");
  const double three = seconds("10a", "135B b=24 drives=3");
  EXPECT_GT(one / three, 2.1);
  EXPECT_LT(one / three, 2.6);
  EXPECT_LT(seconds("10a", "135B b=24 drives=6") / seconds("10a", "135B b=24 drives=12"), 1.3);
}

// A column of the table by hand: 32 sequences of 1024 tokens at 1376.1 tokens per second.
TEST_F(FuyouExperiments, PublishedSpeedsAreSecondsPerStep) {
  const FuyouExperimentRow& one = row("5a", "13B b=32");
  EXPECT_NEAR(one.published, 23.8, 0.05);
  EXPECT_EQ(one.tokens, 32768);
  EXPECT_NEAR(row("11", "13B b=64 gpus=2").published, 35.0, 0.05);
  EXPECT_EQ(row("11", "13B b=64 gpus=2").tokens, 65536);
}

}  // namespace
}  // namespace ferry
