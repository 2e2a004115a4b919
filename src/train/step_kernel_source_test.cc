// The kernels of CUDA devices, without one: NVRTC compiles them for real architectures, and their
// C++ build computes on the CPU.
#include "train/step_kernel_source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "device/kernel_library.h"
#include "device/nvrtc.h"
#include "optim/adamw.h"
#include "optim/split.h"
#include "train/kernels_on_cpu.h"

namespace ferry {
namespace {

using Half = unsigned short;

class StepKernelsOnArchitecture : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (std::string(FERRY_NVRTC).empty()) {
      GTEST_SKIP() << "nvidia-cuda-nvrtc is not installed (requirements.txt)";
    }
  }

  /// Once per architecture, for all tests.
  static const CompiledKernels& compiled() {
    static std::map<std::string, CompiledKernels> all;
    const auto [entry, is_new] = all.try_emplace(GetParam());
    if (is_new) {
      const std::vector<std::string> names = {FERRY_NVRTC};
      entry->second = Nvrtc::load(names).compile(kStepKernels, GetParam(), step_kernel_options());
    }
    return entry->second;
  }
};

TEST_P(StepKernelsOnArchitecture, CompileToItsMachineCode) {
  const CompiledKernels& code = compiled();
  EXPECT_EQ(code.cubin.substr(0, 4),
            "\x7f"
            "ELF");
  for (const char* kernel : {"adamw", "add_gradient", "add_squares", "swiglu", "swiglu_backward",
                             "rotate", "cross_entropy"}) {
    EXPECT_NE(code.ptx.find(".entry " + std::string(kernel)), std::string::npos) << kernel;
  }
}

// Decision 2 asks for one correctly rounded operation after the other. The options and the words of
// the source see to it; the assembly shows it.
TEST_P(StepKernelsOnArchitecture, RoundEveryOperationCorrectlyAndFuseNone) {
  const std::string& ptx = compiled().ptx;
  for (const char* word : {"mul.rn.f32", "add.rn.f32", "sub.rn.f32", "div.rn.f32", "sqrt.rn.f32",
                           "mul.rn.f64", "add.rn.f64"}) {
    EXPECT_NE(ptx.find(word), std::string::npos) << word;
  }
  for (const char* word : {"fma.rn.f", "mad.rn.f", ".ftz", ".approx", "div.full"}) {
    EXPECT_EQ(ptx.find(word), std::string::npos) << word;
  }
}

INSTANTIATE_TEST_SUITE_P(Real, StepKernelsOnArchitecture,
                         testing::Values("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"),
                         [](const auto& architecture) { return std::string(architecture.param); });

TEST(StepKernels, AreCompiledWithIeeeArithmetic) {
  const auto options = step_kernel_options();
  for (const char* option :
       {"--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true"}) {
    EXPECT_NE(std::ranges::find(options, option), options.end()) << option;
  }
}

/// A state in all its forms, of numbers that a trainer meets and of some that it should not.
struct State {
  State(std::size_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::uniform_real_distribution<float> exponent(-60, 4);
    for (std::size_t i = 0; i < count; ++i) {
      weight.push_back(normal(random));
      m.push_back(0.1F * normal(random));
      v.push_back(i % 7 == 0 ? std::numeric_limits<float>::denorm_min()
                             : std::pow(normal(random), 2.0F));
      gradient.push_back(normal(random) * std::exp2(exponent(random)));
      hi.push_back(split_hi(std::bit_cast<std::uint32_t>(weight[i])));
      lo.push_back(split_lo(std::bit_cast<std::uint32_t>(weight[i])));
    }
  }

  bool operator==(const State&) const = default;

  std::vector<float> weight, m, v, gradient;
  std::vector<std::uint16_t> hi, lo;
};

class AdamWKernel : public testing::TestWithParam<bool> {};

// A million elements, three times: enough that a root, a division or a rounding that is off by an
// ulp in one element of a hundred thousand shows.
TEST_P(AdamWKernel, EqualsTheHostsBitForBit) {
  const bool split = GetParam();
  constexpr std::size_t kCount = 1'000'003;
  State host(kCount, 7), device = host;
  const KernelLibrary kernels(cpu_driver(), 0, "code");
  for (std::int64_t step = 1; step <= 3; ++step) {
    const AdamW adamw{.lr = 1e-2, .weight_decay = 0.1, .step = step};
    const float scale = 0.37F;
    Update update{.state = FullState{host.weight, host.m, host.v},
                  .gradient = std::span<const float>(host.gradient)};
    if (split) update.state = SplitState{host.hi, host.lo, host.m, host.v};
    ASSERT_FALSE(adamw_step(adamw, update, scale).has_value());

    const AdamWFactors f = adamw_factors(adamw, 1.0F, true);
    kernels.launch(nullptr, "adamw", kCount, split ? device.hi.data() : nullptr,
                   split ? device.lo.data() : nullptr, split ? nullptr : device.weight.data(),
                   device.m.data(), device.v.data(),
                   static_cast<const float*>(device.gradient.data()),
                   static_cast<const Half*>(nullptr), 0, &scale, f.keep, f.beta1, f.one_minus_beta1,
                   f.beta2, f.one_minus_beta2, f.inverse_root_bias2, f.eps, f.step_size,
                   static_cast<long long>(kCount));
  }
  EXPECT_TRUE(host == device);
}

INSTANTIATE_TEST_SUITE_P(States, AdamWKernel, testing::Bool(),
                         [](const auto& split) { return split.param ? "bf16" : "fp32"; });

// Sizes around what one partial sum takes, and around what a second level of sums takes.
TEST(AddGradientKernel, SumsSquaresInAnOrderOfTheSizeAlone) {
  const KernelLibrary kernels(cpu_driver(), 0, "code");
  for (const long long count : {1, 63, 64, 65, 4096, 4097, 300'000}) {
    const State state(static_cast<std::size_t>(count), 3);
    std::vector<float> sum = state.weight;
    const long long columns = (count + kSquaresPerSum - 1) / kSquaresPerSum;
    std::vector<double> squares(static_cast<std::size_t>(columns), -1.0);
    kernels.launch(nullptr, "add_gradient", columns, sum.data(), state.gradient.data(),
                   static_cast<const Half*>(nullptr), 1, squares.data(), count);
    std::vector<double> expected(squares.size());
    for (std::size_t i = 0; i < sum.size(); ++i) {
      ASSERT_EQ(sum[i], state.weight[i] + state.gradient[i]);
      expected[i / 8 % expected.size()] +=
          static_cast<double>(sum[i]) * static_cast<double>(sum[i]);
    }
    EXPECT_EQ(squares, expected) << count;

    const long long groups = (columns + kSquaresPerSum - 1) / kSquaresPerSum;
    std::vector<double> totals(static_cast<std::size_t>(groups), 5.0), above(totals.size());
    kernels.launch(nullptr, "add_squares", groups, static_cast<const double*>(squares.data()),
                   totals.data(), 1, columns);
    for (std::size_t i = 0; i < squares.size(); ++i) above[i / kSquaresPerSum] += squares[i];
    for (double& each : above) each += 5.0;
    EXPECT_EQ(totals, above) << count;
  }
}

// Tensors of a block begin anywhere: sums, and the order of their squares, are the same.
TEST(AddGradientKernel, ComputesTheSameWhereverArraysBegin) {
  const KernelLibrary kernels(cpu_driver(), 0, "code");
  constexpr long long kCount = 1003;
  const State state(kCount, 5);
  const auto run = [&](std::ptrdiff_t of_sum, std::ptrdiff_t of_gradient, bool bf16) {
    std::vector<float> sum(kCount + 4), gradient(kCount + 4);
    std::vector<Half> halves(kCount + 8);
    std::ranges::copy(state.weight, sum.begin() + of_sum);
    std::ranges::copy(state.gradient, gradient.begin() + of_gradient);
    std::ranges::copy(state.hi, halves.begin() + of_gradient);
    std::vector<double> squares(16, -1.0);
    kernels.launch(nullptr, "add_gradient", 16, sum.data() + of_sum,
                   bf16 ? nullptr : static_cast<const float*>(gradient.data() + of_gradient),
                   bf16 ? static_cast<const Half*>(halves.data() + of_gradient) : nullptr, 1,
                   squares.data(), kCount);
    return std::pair(std::vector(sum.begin() + of_sum, sum.begin() + of_sum + kCount), squares);
  };
  for (const bool bf16 : {false, true}) {
    const auto aligned = run(0, 0, bf16);
    EXPECT_EQ(run(1, 0, bf16), aligned);
    EXPECT_EQ(run(0, 3, bf16), aligned);
    EXPECT_EQ(run(2, 1, bf16), aligned);
  }
}

TEST(AddGradientKernel, BeginsASumWithTheGradientAndTakesBf16) {
  const KernelLibrary kernels(cpu_driver(), 0, "code");
  std::vector<float> sum = {7.0F, std::numeric_limits<float>::quiet_NaN()};
  const std::vector<Half> gradient = {0x3f80, 0xc000};  // 1 and -2
  kernels.launch(nullptr, "add_gradient", 1, sum.data(), static_cast<const float*>(nullptr),
                 gradient.data(), 0, static_cast<double*>(nullptr), 2LL);
  EXPECT_EQ(sum, (std::vector<float>{1.0F, -2.0F}));
}

}  // namespace
}  // namespace ferry
