#include "cli/verdict.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ferry {
namespace {

std::vector<StepReport> steps(double loss, double norm) {
  StepReport report;
  report.step = 1;
  report.loss = loss;
  report.grad_norm = norm;
  return {report};
}

const std::vector<TensorDifference> kEqual = {{"w", true, 0}, {"w.exp_avg", true, 0}};
const std::vector<TensorDifference> kApart = {{"a", false, 0}, {"b", true, 0}, {"c", false, 0.5}};

TEST(Verdict, EqualBitsAreTheSameUnderEveryTolerance) {
  for (const Tolerance tolerance : {Tolerance::no_bit, Tolerance::rounding}) {
    const Verdict verdict =
        judge(steps(6.25, 1.5), steps(6.25, 1.5), kEqual, tolerance, Precision::fp32);
    EXPECT_TRUE(verdict.same);
    EXPECT_NE(verdict.text.find("losses 0, norms 0"), std::string::npos) << verdict.text;
    EXPECT_NE(verdict.text.find("2 tensors, equal bit for bit"), std::string::npos);
  }
}

TEST(Verdict, OneBitOfALossOrOfATensorIsADifferenceOnTheCpu) {
  const double next = std::nextafter(6.25, 7);
  const auto on_cpu = [](const auto& planned, const auto& tensors) {
    return judge(planned, steps(6.25, 1.5), tensors, Tolerance::no_bit, Precision::fp32);
  };
  EXPECT_FALSE(on_cpu(steps(next, 1.5), kEqual).same);
  EXPECT_FALSE(on_cpu(steps(6.25, next), kEqual).same);
  const Verdict apart = on_cpu(steps(6.25, 1.5), kApart);
  EXPECT_FALSE(apart.same);
  EXPECT_NE(apart.text.find("2 of 3 tensors differ, by at most 0.5\n  c "), std::string::npos)
      << apart.text;
  EXPECT_EQ(apart.text.find("\n  b "), std::string::npos);
}

TEST(Verdict, RoundingMayMoveLossesByAThousandthAndNormsByAHundredth) {
  const auto on_gpu = [](double loss, double norm, Precision precision) {
    return judge(steps(loss, norm), steps(1, 1), kApart, Tolerance::rounding, precision).same;
  };
  EXPECT_TRUE(on_gpu(1.0009, 1.009, Precision::fp32));
  EXPECT_FALSE(on_gpu(1.0011, 1, Precision::fp32));
  EXPECT_FALSE(on_gpu(1, 1.011, Precision::fp32));
  EXPECT_TRUE(on_gpu(1.019, 1.19, Precision::bf16));
  EXPECT_FALSE(on_gpu(NAN, 1, Precision::bf16));
}

}  // namespace
}  // namespace ferry
