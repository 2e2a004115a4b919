#include "train/gradient_sums.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <memory>

#include "device/testing.h"
#include "train/kernels_on_cpu.h"

namespace ferry {
namespace {

StepKernels cpu_kernels() {
  return {std::make_unique<KernelLibrary>(cpu_driver(), 0, "code"), [] { return nullptr; }};
}

/// A block's sums after three micro-batches, and the square of their norm.
struct Summed {
  std::vector<at::Tensor> sums;
  double squared_norm = 0;
};

Summed summed(const StepKernels* kernels, bool tied, at::Device where = at::kCPU) {
  at::Generator random = at::globalContext().defaultGenerator(at::kCPU);
  random.set_current_seed(5);
  const std::vector<std::vector<std::int64_t>> shapes = {{300, 17}, {64}, {1}, {513, 65}};
  Summed result;
  for (const auto& shape : shapes) result.sums.push_back(at::full(shape, 1e30).to(where));
  GradientSums sums(result.sums, kernels);
  for (int m = 0; m < 3; ++m) {
    std::vector<at::Tensor> found;
    for (const auto& shape : shapes) found.push_back(at::randn(shape).to(where));
    found[0] = found[0].to(at::kBFloat16);
    found[3] = at::randn({65, 513}).to(where).t();  // as products leave them: not contiguous
    sums.add(found, /*adds=*/m > 0, /*last=*/m == 2);
  }
  if (tied) sums.add_to_first(at::randn(shapes[0]).to(where));
  const at::Tensor total = at::full({}, 7.0, at::kDouble).to(where);
  sums.squared_norm(total);
  result.squared_norm = total.item<double>();
  return result;
}

class GradientSumsOf : public testing::TestWithParam<bool> {};

TEST_P(GradientSumsOf, ByKernelsAreThoseOfTorchsOperationsBitForBit) {
  const StepKernels kernels = cpu_kernels();
  const Summed plain = summed(nullptr, GetParam()), fused = summed(&kernels, GetParam());
  for (std::size_t i = 0; i < plain.sums.size(); ++i) {
    EXPECT_TRUE(at::equal(plain.sums[i], fused.sums[i])) << i;
  }
}

TEST_P(GradientSumsOf, HaveANormThatIsThatOfFp64) {
  const StepKernels kernels = cpu_kernels();
  const Summed plain = summed(nullptr, GetParam()), fused = summed(&kernels, GetParam());
  double exact = 0;
  for (const at::Tensor& sum : plain.sums) {
    const at::Tensor wide = sum.to(at::kDouble);
    exact += (wide * wide).sum().item<double>();
  }
  EXPECT_NEAR(plain.squared_norm / exact, 1.0, 1e-6);   // its root is in fp32
  EXPECT_NEAR(fused.squared_norm / exact, 1.0, 1e-14);  // fp64 all the way
}

TEST_P(GradientSumsOf, OnCudaAreThoseOfTheCpuBitForBit) {
  const DeviceIfHere here("cuda:0");
  if (!here.device) GTEST_SKIP() << here.why_not;
  const StepKernels on_cpu = cpu_kernels();
  const auto on_gpu = StepKernels::open(*here.device, {}, nobody());
  ASSERT_NE(on_gpu, nullptr);
  const Summed cpu = summed(&on_cpu, GetParam());
  const Summed gpu = summed(on_gpu.get(), GetParam(), here.device->torch_device());
  for (std::size_t i = 0; i < cpu.sums.size(); ++i) {
    EXPECT_TRUE(at::equal(cpu.sums[i], gpu.sums[i].cpu())) << i;
  }
  EXPECT_EQ(cpu.squared_norm, gpu.squared_norm);
}

INSTANTIATE_TEST_SUITE_P(Heads, GradientSumsOf, testing::Bool(),
                         [](const auto& tied) { return tied.param ? "tied" : "untied"; });

}  // namespace
}  // namespace ferry
