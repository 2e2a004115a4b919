// The kernels that blocks use in place of chains of torch's operations, against those operations.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "device/simulation.h"
#include "device/testing.h"
#include "model/block.h"
#include "model/fused.h"
#include "model/rotary.h"
#include "model/testing.h"
#include "train/kernels_on_cpu.h"
#include "train/step_kernels.h"

namespace ferry {
namespace {

using at::Tensor;

/// Where the operations run, and the kernels there.
struct Bench {
  at::Device device;
  const StepKernels& kernels;

  Tensor numbers(at::IntArrayRef sizes, double scale = 1) const {
    return (at::randn(sizes) * scale).to(at::kBFloat16).to(device);
  }
};

/// The largest difference, as a part of the larger one's bf16 spacing, and how many differ.
struct Difference {
  double largest = 0, share = 0;
};

Difference between(const Tensor& found, const Tensor& expected) {
  const Tensor a = found.to(at::kFloat), b = expected.to(at::kFloat);
  const Tensor size = at::maximum(a.abs(), b.abs()).clamp_min(1e-30);
  const Tensor off = (a - b).abs() / size * 128;  // 8 bits of significand
  return {off.max().item<double>(), a.ne(b).to(at::kDouble).mean().item<double>()};
}

/// But for an exponential's last bits all is torch's: now and then a number is rounded to its
/// neighbour.
void expect_torchs(const Tensor& found, const Tensor& expected) {
  const auto [largest, share] = between(found, expected);
  EXPECT_LE(largest, 1.01);
  EXPECT_LT(share, 1e-3);
}

void check_swiglu(const Bench& bench) {
  at::Generator random = at::globalContext().defaultGenerator(at::kCPU);
  random.set_current_seed(3);
  // A gate of 30 and more: its sigmoid is 0 or 1.
  Tensor gate = bench.numbers({300, 64}, 8), up = bench.numbers({300, 64});
  const Tensor dy = bench.numbers({300, 64});
  EXPECT_GT(gate.abs().max().item<float>(), 30);
  const Tensor silu = at::silu(gate);
  expect_torchs(bench.kernels.swiglu(gate, up), silu * up);
  const auto [dgate, dup] = bench.kernels.swiglu_backward(dy, gate, up);
  expect_torchs(dup, dy * silu);
  // Where the sigmoid's slope goes through 0 a last bit of it is all that is left.
  const Tensor expected = at::silu_backward((dy * up).to(at::kFloat), gate.to(at::kFloat));
  EXPECT_LT(relative_error(dgate.to(at::kFloat), expected), 4e-3);
}

void check_rotate(const Bench& bench) {
  at::Generator random = at::globalContext().defaultGenerator(at::kCPU);
  random.set_current_seed(4);
  constexpr std::int64_t kLength = 37, kHeads = 3, kHalf = 16;
  const Tensor x = bench.numbers({2, kLength, kHeads, 2 * kHalf});
  const Tensor angle = at::randn({kLength, 1, kHalf}) * 4;
  const Tensor cosine = at::cos(angle).to(at::kBFloat16).to(bench.device),
               sine = at::sin(angle).to(at::kBFloat16).to(bench.device);
  const Tensor plain = rotate(x, {cosine, sine});
  expect_torchs(bench.kernels.rotate(x, cosine, sine, 1), plain);
  const Tensor back =
      bench.kernels.rotate(bench.kernels.rotate(x, cosine, sine, 1), cosine, sine, -1);
  EXPECT_LT(relative_error(back.to(at::kFloat), x.to(at::kFloat)), 1e-2);
  const UseFused fused(&bench.kernels);
  EXPECT_TRUE(at::equal(rotate(x, {cosine, sine}), bench.kernels.rotate(x, cosine, sine, 1)));
}

StepKernels cpu_kernels() {
  return {std::make_unique<KernelLibrary>(cpu_driver(), 0, "code"), [] { return nullptr; }};
}

TEST(FusedOperations, OfAGatedMlpAreTorchs) { check_swiglu({at::kCPU, cpu_kernels()}); }

TEST(FusedOperations, OfRotaryPositionsAreTorchs) { check_rotate({at::kCPU, cpu_kernels()}); }

TEST(FusedOperations, OnCudaAreTorchs) {
  const DeviceIfHere here("cuda:0");
  if (!here.device) GTEST_SKIP() << here.why_not;
  const auto kernels = StepKernels::open(*here.device, {}, nobody());
  ASSERT_NE(kernels, nullptr);
  const Bench bench{here.device->torch_device(), *kernels};
  check_swiglu(bench);
  check_rotate(bench);
}

// A block computes the same with them, forward and backward, but for roundings.
TEST(FusedOperations, LeaveABlocksResultsAsTheyAre) {
  SimOptions options;  // before autograd's first use: it counts the devices of a process once
  options.devices = {{1_MiB, 1, {}, {}, 0}};
  simdev_open(options);
  const ModelSpec model = small_model("llama");
  const StepKernels kernels = cpu_kernels();
  at::Generator random = at::globalContext().defaultGenerator(at::kCPU);
  random.set_current_seed(5);
  for (const BlockKind kind : {BlockKind::attention, BlockKind::mlp}) {
    const BlockSpec& block = *std::ranges::find(model.blocks, kind, &BlockSpec::kind);
    const std::vector<Tensor> weights = random_weights(block, at::kBFloat16);
    const Tensor x = at::randn({2, 32, model.hidden}).to(at::kBFloat16);
    const Tensor dy = at::randn({2, 32, model.hidden}).to(at::kBFloat16);
    const Tensor y = forward(model, block, x, weights, {});
    const BlockGradients expected = backward(model, block, x, weights, dy, {});
    const UseFused fused(&kernels);
    EXPECT_LT(relative_error(forward(model, block, x, weights, {}), y), 1e-3);
    const BlockGradients found = backward(model, block, x, weights, dy, {});
    EXPECT_LT(relative_error(found.x, expected.x), 4e-3);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      EXPECT_LT(relative_error(found.weights[i], expected.weights[i]), 4e-3) << i;
    }
  }
  simdev_close();
}

}  // namespace
}  // namespace ferry
