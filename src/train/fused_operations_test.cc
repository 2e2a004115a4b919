// The kernels that blocks use in place of chains of torch's operations, against those operations.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "device/simulation.h"
#include "device/testing.h"
#include "model/block.h"
#include "model/fused.h"
#include "model/head.h"
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

/// Rows of more and of fewer groups than a block has threads, large logits, ignored labels.
void check_cross_entropy(const Bench& bench) {
  at::Generator random = at::globalContext().defaultGenerator(at::kCPU);
  random.set_current_seed(6);
  constexpr double kScale = 1.0 / 30;
  for (const std::int64_t vocab : {std::int64_t{8}, std::int64_t{1000}, std::int64_t{5000}}) {
    SCOPED_TRACE(vocab);
    const Tensor logits = bench.numbers({9, vocab}, 10);
    logits[3].mul_(30);  // e^x overflows
    const Tensor labels = at::randint(vocab, {9}).to(bench.device);
    labels.narrow(0, 4, 2).fill_(kIgnoredLabel);
    const Tensor exact = logits.to(at::kDouble).requires_grad_();
    const Tensor expected = at::cross_entropy_loss(exact, labels, {}, at::Reduction::None);
    const Tensor gradient =
        torch::autograd::grad({expected.sum() * kScale}, {exact}).front().to(at::kBFloat16);

    const Tensor before = logits.clone();
    const Tensor losses = bench.kernels.cross_entropy(logits, labels, std::nullopt);
    EXPECT_TRUE(at::equal(logits, before));
    EXPECT_TRUE(at::allclose(losses.to(at::kDouble), expected.detach(), 1e-6, 1e-6));
    EXPECT_TRUE(at::equal(bench.kernels.cross_entropy(logits, labels, kScale), losses));
    EXPECT_TRUE(at::equal(losses.narrow(0, 4, 2), at::zeros_like(losses.narrow(0, 4, 2))));
    EXPECT_TRUE(at::equal(logits.narrow(0, 4, 2), at::zeros_like(logits.narrow(0, 4, 2))));
    EXPECT_LT(relative_error(logits.to(at::kFloat), gradient.to(at::kFloat)), 1e-3);
    // No exponential is below 1e-38: what torch has for 0 there is as good as that.
    const Tensor counts = gradient.abs().gt(1e-30);
    EXPECT_LT(between(logits * counts, gradient * counts).share, 5e-3);

    const Tensor of_nothing = before.clone();  // a step without a token to learn has the scale 0
    EXPECT_TRUE(at::equal(bench.kernels.cross_entropy(of_nothing, labels, 0), losses));
    EXPECT_TRUE(at::equal(of_nothing, at::zeros_like(before)));
  }
}

StepKernels cpu_kernels() {
  return {std::make_unique<KernelLibrary>(cpu_driver(), 0, "code"), [] { return nullptr; }};
}

TEST(FusedOperations, OfAGatedMlpAreTorchs) { check_swiglu({at::kCPU, cpu_kernels()}); }

TEST(FusedOperations, OfRotaryPositionsAreTorchs) { check_rotate({at::kCPU, cpu_kernels()}); }

TEST(FusedOperations, OfACrossEntropyAreTorchs) { check_cross_entropy({at::kCPU, cpu_kernels()}); }

// A number that is none must not be lost: it is how a run that diverges is seen.
TEST(FusedOperations, OfACrossEntropyKeepNan) {
  const StepKernels kernels = cpu_kernels();
  const Tensor logits = at::ones({2, 16}).to(at::kBFloat16), labels = at::zeros({2}, at::kLong);
  logits[1][7].fill_(std::numeric_limits<double>::quiet_NaN());
  const Tensor losses = kernels.cross_entropy(logits, labels, 1);
  EXPECT_TRUE(at::isfinite(losses[0]).item<bool>());
  EXPECT_TRUE(at::isnan(losses[1]).item<bool>());
  EXPECT_TRUE(at::isnan(logits[1]).any().item<bool>());
}

TEST(FusedOperations, OnCudaAreTorchs) {
  const DeviceIfHere here("cuda:0");
  if (!here.device) GTEST_SKIP() << here.why_not;
  const auto kernels = StepKernels::open(*here.device, {}, nobody());
  ASSERT_NE(kernels, nullptr);
  const Bench bench{here.device->torch_device(), *kernels};
  check_swiglu(bench);
  check_rotate(bench);
  check_cross_entropy(bench);
}

// A head, too: in as few chunks as the kernel allows, and with what torch's operations give where
// a row is no whole groups.
TEST(FusedOperations, LeaveAHeadsResultsAsTheyAre) {
  const StepKernels kernels = cpu_kernels();
  at::Generator random = at::globalContext().defaultGenerator(at::kCPU);
  random.set_current_seed(7);
  for (const std::int64_t vocab : {std::int64_t{320}, std::int64_t{321}}) {
    const Tensor labels = at::randint(vocab, {2, 25});
    labels.narrow(1, 3, 5).fill_(kIgnoredLabel);
    const HeadInput head{.x = at::randn({2, 25, 64}).to(at::kBFloat16),
                         .weight = at::randn({vocab, 64}).to(at::kBFloat16),
                         .labels = labels,
                         .scale = 1.0 / 40,
                         .chunk_rows = 10};
    const Tensor plain_sum = at::ones({vocab, 64}), sum = at::ones({vocab, 64});
    const HeadResult plain = head_forward_backward(head, plain_sum, true);
    const UseFused fused(&kernels);
    const CallRecorder recorder;
    const HeadResult found = head_forward_backward(head, sum, true);
    const auto calls = recorder.calls();
    EXPECT_EQ(std::ranges::count(calls, "aten::_log_softmax", &Call::name), vocab == 320 ? 0 : 5);
    EXPECT_LT(relative_error(found.loss, plain.loss), 1e-5);
    EXPECT_LT(relative_error(head_loss(head), plain.loss), 1e-5);
    EXPECT_LT(relative_error(found.dx.to(at::kFloat), plain.dx.to(at::kFloat)), 4e-3);
    EXPECT_LT(relative_error(sum, plain_sum), 4e-3);
  }
}

// All labels of a step may be ignored: its scale is 0 then, and so are its gradients.
TEST(FusedOperations, OfAHeadWithNothingToLearnGiveZeros) {
  const StepKernels kernels = cpu_kernels();
  const HeadInput head{.x = at::randn({2, 25, 64}).to(at::kBFloat16),
                       .weight = at::randn({320, 64}).to(at::kBFloat16),
                       .labels = at::full({2, 25}, kIgnoredLabel, at::kLong),
                       .scale = 0,
                       .chunk_rows = 10};
  const Tensor sum = at::ones({320, 64});
  const UseFused fused(&kernels);
  const HeadResult found = head_forward_backward(head, sum, false);
  EXPECT_EQ(found.loss.item<float>(), 0);
  EXPECT_TRUE(at::equal(found.dx, at::zeros_like(found.dx)));
  EXPECT_TRUE(at::equal(sum, at::zeros_like(sum)));
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
