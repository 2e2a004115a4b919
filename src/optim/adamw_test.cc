#include "optim/adamw.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/bf16.h"
#include "optim/adamw_kernel.h"
#include "optim/split.h"

namespace ferry {
namespace {

constexpr AdamW kStep = {
    .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.1, .step = 7};

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

// A run of parameters in both forms, with equal values.
struct Twin {
  std::vector<std::uint16_t> hi, lo;
  std::vector<float> weight, m, v, split_m, split_v;

  Twin(std::size_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (std::size_t i = 0; i < count; ++i) {
      weight.push_back(normal(random));
      hi.push_back(split_hi(bits_of(weight[i])));
      lo.push_back(split_lo(bits_of(weight[i])));
      m.push_back(0.1F * normal(random));
      v.push_back(std::pow(normal(random), 2.0F));
    }
    split_m = m;
    split_v = v;
  }

  FullState full() { return {weight, m, v}; }
  SplitState split() { return {hi, lo, split_m, split_v}; }

  // Counts elements in which the two forms differ in any bit.
  int differences() const {
    int count = 0;
    for (std::size_t i = 0; i < weight.size(); ++i) {
      count += join(hi[i], lo[i]) != bits_of(weight[i]) || bits_of(m[i]) != bits_of(split_m[i]) ||
               bits_of(v[i]) != bits_of(split_v[i]);
    }
    return count;
  }

  bool operator==(const Twin&) const = default;
};

// Gradients of many magnitudes, as a trainer meets them.
std::vector<float> gradients(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<float> exponent(-20, 2);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random) * std::exp2(exponent(random));
  return values;
}

std::vector<std::uint16_t> to_bf16(const std::vector<float>& values) {
  std::vector<std::uint16_t> result;
  for (const float value : values) result.push_back(split_hi(bits_of(value)));
  return result;
}

struct Element {
  double weight, m, v;
};

// The textbook formula in double, whose own error does not count here.
Element reference(const AdamW& adamw, Element old, double g, bool decay) {
  const double bias1 = 1 - std::pow(adamw.beta1, static_cast<double>(adamw.step));
  const double bias2 = 1 - std::pow(adamw.beta2, static_cast<double>(adamw.step));
  const double m = adamw.beta1 * old.m + (1 - adamw.beta1) * g;
  const double v = adamw.beta2 * old.v + (1 - adamw.beta2) * g * g;
  const double kept = old.weight * (decay ? 1 - adamw.lr * adamw.weight_decay : 1);
  return {kept - adamw.lr * (m / bias1) / (std::sqrt(v / bias2) + adamw.eps), m, v};
}

void expect_close_to_reference(const AdamW& adamw, const Twin& before, const Twin& after,
                               const std::vector<float>& gradient, double scale, bool decay) {
  constexpr double kUlp = 0x1p-23;  // of fp32, relative
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const double g = gradient[i] * scale;
    const Element old = {before.weight[i], before.m[i], before.v[i]};
    const Element expected = reference(adamw, old, g, decay);
    // A sum is off by the roundings of its terms, each at most a few half ulp of that term.
    EXPECT_NEAR(after.m[i], expected.m, 2 * kUlp * (std::abs(old.m) + std::abs(g)));
    EXPECT_NEAR(after.v[i], expected.v, 3 * kUlp * expected.v + 0x1p-140);
    const double moved = std::abs(expected.weight - old.weight) +
                         adamw.lr * std::abs(old.weight * adamw.weight_decay);
    // Cancellation inside m makes the move itself less exact than a few ulp of it.
    const double m_slack = 2 * kUlp * (std::abs(old.m) + std::abs(g)) / std::abs(expected.m);
    EXPECT_NEAR(after.weight[i], expected.weight,
                1.5 * kUlp * std::abs(old.weight) + moved * (8 * kUlp + m_slack))
        << "element " << i;
  }
}

TEST(AdamW, AStepEqualsTheDoubleReferenceWithinRounding) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    Twin run(257, seed);
    AdamW adamw = kStep;
    adamw.lr = std::pow(10.0, -1.0 - seed % 5);
    for (const std::int64_t step : {1, 2, 10, 1000, 1000000}) {
      adamw.step = step;
      const Twin before = run;
      const auto gradient = gradients(257, seed + 1000);
      const float scale = seed % 2 == 0 ? 1.0F : 0.37F;
      const bool decay = seed % 3 != 0;
      EXPECT_EQ(adamw_step(adamw, {run.full(), gradient, decay}, scale), std::nullopt);
      expect_close_to_reference(adamw, before, run, gradient, scale, decay);
    }
  }
}

// The header's formulas, one rounding at a time, as a device computes them.
TEST(AdamW, TheOrderOfOperationsIsTheDocumentedOne) {
  Twin run(1001, 3);
  const Twin before = run;
  const auto gradient = gradients(1001, 4);
  const AdamWFactors f = adamw_factors(kStep, 0.5F, true);
  ASSERT_EQ(adamw_step(kStep, {run.full(), gradient, true}, 0.5F), std::nullopt);
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const float g = gradient[i] * f.gradient_scale;
    const float w = before.weight[i] * f.keep;
    const float m_old = before.m[i] * f.beta1, m_new = g * f.one_minus_beta1;
    const float m = m_old + m_new;
    const float square = g * g;
    const float v_old = before.v[i] * f.beta2, v_new = square * f.one_minus_beta2;
    const float v = v_old + v_new;
    const float root = std::sqrt(v);
    const float quotient = root * f.inverse_root_bias2;
    const float d = quotient + f.eps;
    const float ratio = m / d;
    const float move = ratio * f.step_size;
    ASSERT_EQ(bits_of(run.m[i]), bits_of(m)) << i;
    ASSERT_EQ(bits_of(run.v[i]), bits_of(v)) << i;
    ASSERT_EQ(bits_of(run.weight[i]), bits_of(w - move)) << i;
  }
}

TEST(AdamW, FactorsAreRoundedFromDoubleOnce) {
  const AdamWFactors f = adamw_factors(kStep, 0.25F, true);
  EXPECT_EQ(f.gradient_scale, 0.25F);
  EXPECT_EQ(f.keep, static_cast<float>(1 - 1e-4));
  EXPECT_EQ(f.one_minus_beta1, static_cast<float>(1 - 0.9));
  EXPECT_EQ(f.one_minus_beta2, static_cast<float>(1 - 0.999));
  EXPECT_EQ(f.inverse_root_bias2, static_cast<float>(1 / std::sqrt(1 - std::pow(0.999, 7.0))));
  EXPECT_EQ(f.step_size, static_cast<float>(1e-3 / (1 - std::pow(0.9, 7.0))));
  EXPECT_EQ(adamw_factors(kStep, 1, false).keep, 1.0F);
}

TEST(AdamW, SplitAndFullStatesStayEqualBitForBit) {
  constexpr std::size_t kCount = 515;
  Twin run(kCount, 11);
  AdamW adamw = kStep;
  for (int step = 1; step <= 1000; ++step) {
    adamw.step = step;
    const auto gradient = gradients(kCount, static_cast<unsigned>(step));
    if (step % 2 == 0) {
      ASSERT_EQ(adamw_step(adamw, {run.full(), gradient}, 0.7F), std::nullopt);
      ASSERT_EQ(adamw_step(adamw, {run.split(), gradient}, 0.7F), std::nullopt);
    } else {
      const auto bf16 = to_bf16(gradient);
      ASSERT_EQ(adamw_step(adamw, {run.full(), bf16}, 0.7F), std::nullopt);
      ASSERT_EQ(adamw_step(adamw, {run.split(), bf16}, 0.7F), std::nullopt);
    }
    ASSERT_EQ(run.differences(), 0) << "step " << step;
  }
}

TEST(AdamW, ABf16GradientCountsAsItsExactValue) {
  Twin run(100, 5), other = run;
  const auto bf16 = to_bf16(gradients(100, 6));
  std::vector<float> same;
  for (const std::uint16_t bits : bf16) same.push_back(bf16_to_float(bits));
  adamw_step(kStep, {run.split(), bf16}, 1);
  adamw_step(kStep, {other.split(), same}, 1);
  EXPECT_EQ(run, other);
}

TEST(AdamW, WithoutDecayAZeroGradientAndZeroMomentsLeaveTheWeightAlone) {
  Twin run(100, 8);
  run.m.assign(100, 0);
  run.v.assign(100, 0);
  const auto before = run.weight;
  const std::vector<float> zeros(100);
  adamw_step(kStep, {run.full(), zeros, false}, 1);
  EXPECT_EQ(run.weight, before);
  adamw_step(kStep, {run.full(), zeros, true}, 1);
  for (std::size_t i = 0; i < 100; ++i) {
    EXPECT_EQ(run.weight[i], before[i] * static_cast<float>(1 - 1e-4));
  }
}

TEST(AdamW, EveryInstructionSetGivesTheSameBits) {
  constexpr std::size_t kCount = 1037;  // leaves a remainder for every vector width
  const auto gradient = gradients(kCount, 22);
  const auto bf16 = to_bf16(gradient);
  const auto step_with = [&](AdamWKernel kernel, Twin& run) {
    const AdamWFactors factors = adamw_factors(kStep, 0.9F, true);
    AdamWChunk split{.hi = run.hi.data(), .lo = run.lo.data(), .count = kCount};
    split.m = run.split_m.data(), split.v = run.split_v.data();
    AdamWChunk full{.weight = run.weight.data(), .m = run.m.data(), .v = run.v.data()};
    full.count = kCount;
    for (AdamWChunk* chunk : {&split, &full}) {
      chunk->gradient = gradient.data();
      EXPECT_TRUE(kernel(factors, *chunk));
      chunk->gradient = nullptr;
      chunk->gradient_bf16 = bf16.data();
      EXPECT_TRUE(kernel(factors, *chunk));
    }
  };
  const auto kernels = adamw_kernels();
  Twin expected(kCount, 21);
  step_with(kernels.back(), expected);
  EXPECT_EQ(expected.differences(), 0);
  for (const AdamWKernel kernel : kernels) {
    Twin run(kCount, 21);
    step_with(kernel, run);
    EXPECT_EQ(run, expected);
  }
}

TEST(AdamW, TheNumberOfThreadsChangesNoBit) {
  // One update spans several chunks, some are tiny, one is empty.
  const std::vector<std::size_t> sizes = {200000, 0, 1, 63, 65, 65536, 65537, 70001};
  const auto run_with = [&](WorkerTeam* team) {
    std::vector<Twin> runs;
    std::vector<std::vector<float>> values;
    std::vector<Update> updates;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      runs.emplace_back(sizes[i], static_cast<unsigned>(i));
      values.push_back(gradients(sizes[i], static_cast<unsigned>(i + 50)));
    }
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      updates.push_back({runs[i].split(), values[i], i % 2 == 0});
      updates.push_back({runs[i].full(), values[i], i % 2 == 0});
    }
    if (team != nullptr) {
      EXPECT_EQ(adamw_step(kStep, updates, 0.8F, *team), std::nullopt);
    } else {
      for (const Update& update : updates) adamw_step(kStep, update, 0.8F);
    }
    return runs;
  };
  const auto expected = run_with(nullptr);
  for (const Twin& run : expected) EXPECT_EQ(run.differences(), 0);
  for (const int threads : {1, 2, 5}) {
    WorkerTeam team(threads);
    EXPECT_TRUE(run_with(&team) == expected) << threads << " threads";
  }
}

// An update that turned out to be too early is made again from what it found.
TEST(AdamW, AnUpdateMadeAgainIsTheOneThatWouldHaveBeen) {
  constexpr std::size_t kLong = 70001;  // several pieces
  Twin run(kLong, 3), original(kLong, 4), expected(kLong, 3);
  const Twin before = run;
  const auto gradient = gradients(kLong, 5);
  const auto step = [&](Twin& on, float scale, Twin* kept, bool again, WorkerTeam* team) {
    std::vector<Update> updates = {{on.split(), gradient}, {on.full(), gradient}};
    for (Update& update : updates) update.again = again;
    if (kept != nullptr) {
      updates[0].original = kept->split();
      updates[1].original = kept->full();
    }
    if (team != nullptr) {
      EXPECT_EQ(adamw_step(kStep, updates, scale, *team), std::nullopt);
    } else {
      for (const Update& update : updates) adamw_step(kStep, update, scale);
    }
  };
  step(expected, 0.3F, nullptr, false, nullptr);
  WorkerTeam team(2);
  for (WorkerTeam* const by : {&team, static_cast<WorkerTeam*>(nullptr)}) {
    run = before;
    step(run, 1, &original, false, by);
    EXPECT_EQ(original, before);
    EXPECT_FALSE(run == expected);
    step(run, 0.3F, &original, true, by);
    EXPECT_EQ(run, expected);
    EXPECT_EQ(original, before);
  }
}

TEST(AdamW, OddSizesTouchNothingBeyondTheirEnd) {
  for (const std::size_t count : {0U, 1U, 2U, 15U, 16U, 17U, 31U, 33U, 63U, 64U, 65U, 127U, 129U}) {
    SCOPED_TRACE(count);
    Twin run(count + 1, 9);
    const Twin before = run;
    const auto gradient = gradients(count, 10);
    const std::span<float> w(run.weight), m(run.m), v(run.v);
    const FullState state = {w.first(count), m.first(count), v.first(count)};
    EXPECT_EQ(adamw_step(kStep, {state, gradient}, 1), std::nullopt);
    for (std::size_t i = 0; i < count; ++i) EXPECT_NE(run.weight[i], before.weight[i]);
    EXPECT_EQ(run.weight[count], before.weight[count]);
    EXPECT_EQ(run.m[count], before.m[count]);
    EXPECT_EQ(run.v[count], before.v[count]);
  }
}

TEST(AdamW, TheFirstNonFiniteResultIsReported) {
  const float kInf = std::numeric_limits<float>::infinity();
  // 1e20 is finite, but its square is not: v would stay infinite and the weight stand still.
  for (const float poison : {kInf, -kInf, std::nanf(""), -std::nanf(""), 1e20F}) {
    SCOPED_TRACE(poison);
    Twin run(1000, 1);
    auto gradient = gradients(1000, 2);
    gradient[999] = gradient[637] = poison;
    EXPECT_EQ(adamw_step(kStep, {run.full(), gradient}, 1), 637U);
    EXPECT_EQ(adamw_step(kStep, {run.split(), gradient}, 1), 637U);
  }
}

// A bf16 weight that rounds to infinity would poison the device, although the master is finite.
TEST(AdamW, AMasterWhoseBf16HalfIsInfiniteIsReportedForSplitStatesOnly) {
  Twin run(70, 1);
  run.weight[33] = std::bit_cast<float>(0x7f7fc000U);
  run.hi[33] = split_hi(0x7f7fc000U);
  run.lo[33] = split_lo(0x7f7fc000U);
  const std::vector<float> zeros(70);
  EXPECT_EQ(adamw_step(kStep, {run.full(), zeros, false}, 1), std::nullopt);
  EXPECT_EQ(adamw_step(kStep, {run.split(), zeros, false}, 1), 33U);
}

TEST(AdamW, ATeamReportsTheFirstNonFiniteResultOfAllUpdates) {
  constexpr std::size_t kCount = 300000;
  for (const int threads : {1, 2, 3}) {
    WorkerTeam team(threads);
    Twin fine(kCount, 1), bad(kCount, 2);
    auto gradient = gradients(kCount, 3);
    const auto clean = gradient;
    gradient[kCount - 1] = gradient[200001] = std::nanf("");
    const std::vector<Update> updates = {
        {fine.full(), clean}, {bad.full(), gradient}, {bad.split(), gradient}};
    EXPECT_EQ(adamw_step(kStep, updates, 1, team), (NonFinite{1, 200001}));
  }
}

TEST(AdamWDeathTest, SpansThatDoNotMatchAreCaught) {
  Twin run(10, 1);
  const std::vector<float> nine(9), ten(10);
  EXPECT_DEATH(adamw_step(kStep, {run.full(), nine}, 1), "the gradient fits the weight");
  auto state = run.split();
  state.v = state.v.first(9);
  EXPECT_DEATH(adamw_step(kStep, {state, ten}, 1), "m and v fit the weight");
}

}  // namespace
}  // namespace ferry
