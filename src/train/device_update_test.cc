#include "train/device_update.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "device/testing.h"
#include "optim/split.h"
#include "spec/layout.h"
#include "train/kernels_on_cpu.h"
#include "train/step_kernels.h"

namespace ferry {
namespace {

/// One parameter's state as the host kernel and the device update see it.
struct State {
  explicit State(std::int64_t numel)
      : master(at::randn({numel})),
        hi(at::empty({numel}, at::kShort)),
        lo(at::empty({numel}, at::kShort)),
        m(at::zeros({numel})),
        v(at::zeros({numel})) {
    for (std::int64_t i = 0; i < numel; ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(master.data_ptr<float>()[i]);
      hi.data_ptr<std::int16_t>()[i] = static_cast<std::int16_t>(split_hi(bits));
      lo.data_ptr<std::int16_t>()[i] = static_cast<std::int16_t>(split_lo(bits));
    }
  }

  State copy_on(at::Device where) const {
    State copy = *this;
    for (at::Tensor* part : {&copy.master, &copy.hi, &copy.lo, &copy.m, &copy.v}) {
      *part = part->to(where, part->scalar_type(), /*non_blocking=*/false, /*copy=*/true);
    }
    return copy;
  }

  at::Tensor master, hi, lo, m, v;
};

template <typename T>
std::span<T> span_of(const at::Tensor& tensor) {
  return {static_cast<T*>(tensor.data_ptr()), static_cast<std::size_t>(tensor.numel())};
}

// What the device update is given of a gradient that the host takes in bf16.
enum class Sum { fp32, fp32_to_round, bf16 };

// By torch's operations, or by the kernels of CUDA devices.
enum class By { operations, kernels };

std::unique_ptr<StepKernels> kernels_of(By by) {
  if (by == By::operations) return nullptr;
  return std::make_unique<StepKernels>(std::make_unique<KernelLibrary>(cpu_driver(), 0, "code"),
                                       [] { return nullptr; });
}

/// A few steps with clipping and decay, by the host and by the device update on `where`.
void expect_the_hosts_bits(std::int64_t numel, bool split, Sum sum, at::Device where,
                           const StepKernels* kernels) {
  at::Generator random = at::globalContext().defaultGenerator(at::kCPU);
  random.set_current_seed(11);
  State host(numel), device = host.copy_on(where);
  for (std::int64_t step = 1; step <= 5; ++step) {
    const AdamW adamw{.lr = 1e-2, .weight_decay = 0.1, .step = step};
    const at::Tensor gradient = at::randn({numel}), rounded = gradient.to(at::kBFloat16);
    const at::Tensor scale = at::full({}, 0.37F).to(where);
    Update update{.state = FullState{span_of<float>(host.master), span_of<float>(host.m),
                                     span_of<float>(host.v)},
                  .gradient = std::span<const float>(span_of<float>(gradient))};
    if (sum != Sum::fp32) {
      update.gradient = std::span<const std::uint16_t>(span_of<std::uint16_t>(rounded));
    }
    if (split) {
      update.state = SplitState{span_of<std::uint16_t>(host.hi), span_of<std::uint16_t>(host.lo),
                                span_of<float>(host.m), span_of<float>(host.v)};
    }
    ASSERT_FALSE(adamw_step(adamw, update, 0.37F).has_value());
    device_adamw_step(adamw_factors(adamw, 1.0F, true),
                      {.weight = split ? device.hi.view(at::kBFloat16) : device.master,
                       .lo = split ? device.lo : at::Tensor(),
                       .m = device.m,
                       .v = device.v,
                       .gradient = (sum == Sum::bf16 ? rounded : gradient).to(where),
                       .rounds = sum != Sum::fp32},
                      scale, kernels);
  }
  device = device.copy_on(at::kCPU);
  EXPECT_TRUE(at::equal(host.m, device.m));
  EXPECT_TRUE(at::equal(host.v, device.v));
  EXPECT_TRUE(split ? at::equal(host.hi, device.hi) && at::equal(host.lo, device.lo)
                    : at::equal(host.master, device.master));
}

// Around the piece in which the device update goes.
constexpr std::int64_t kSizes[] = {1, 63, kUpdatePieceElements, kUpdatePieceElements + 1001};
constexpr Sum kSums[] = {Sum::fp32, Sum::fp32_to_round, Sum::bf16};

class DeviceUpdate : public testing::TestWithParam<std::tuple<std::int64_t, bool, Sum, By>> {};

TEST_P(DeviceUpdate, EqualsTheHostKernelBitForBit) {
  const auto [numel, split, sum, by] = GetParam();
  expect_the_hosts_bits(numel, split, sum, at::kCPU, kernels_of(by).get());
}

INSTANTIATE_TEST_SUITE_P(Sizes, DeviceUpdate,
                         testing::Combine(testing::ValuesIn(kSizes), testing::Bool(),
                                          testing::ValuesIn(kSums),
                                          testing::Values(By::operations, By::kernels)));

TEST(DeviceUpdate, OnCudaEqualsTheHostKernelBitForBit) {
  const DeviceIfHere here("cuda:0");
  if (!here.device) GTEST_SKIP() << here.why_not;
  const auto kernels = StepKernels::open(*here.device, {}, nobody());
  ASSERT_NE(kernels, nullptr);
  for (const std::int64_t numel : kSizes) {
    for (const bool split : {false, true}) {
      for (const Sum sum : kSums) {
        for (const bool fused : {false, true}) {
          SCOPED_TRACE(std::to_string(numel) + (split ? " split" : "") + (fused ? " fused" : ""));
          expect_the_hosts_bits(numel, split, sum, here.device->torch_device(),
                                fused ? kernels.get() : nullptr);
        }
      }
    }
  }
}

// 1 + 2^-8 and 1 + 3 * 2^-8 lie halfway between two bf16 numbers; the even one is taken.
TEST(DeviceUpdate, RoundsTiesToEven) {
  for (const By by : {By::operations, By::kernels}) {
    const at::Tensor gradient = at::tensor({1.00390625F, 1.01171875F});
    const at::Tensor weight = at::zeros({2}), m = at::zeros({2}), v = at::zeros({2});
    const AdamW adamw{.lr = 1, .beta1 = 0};
    device_adamw_step(adamw_factors(adamw, 1.0F, true),
                      {.weight = weight,
                       .lo = at::Tensor(),
                       .m = m,
                       .v = v,
                       .gradient = gradient,
                       .rounds = true},
                      at::Tensor(), kernels_of(by).get());
    EXPECT_EQ(m[0].item<float>(), 1.0F);
    EXPECT_EQ(m[1].item<float>(), 1.015625F);
  }
}

}  // namespace
}  // namespace ferry
