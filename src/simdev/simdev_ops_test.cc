// Every operation that the model families use gives the plain CPU's bits on a sim device, forward
// and backward, in fp32 and bf16, without waiting for its stream.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <c10/core/DeviceGuard.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstring>
#include <functional>
#include <thread>

#include "simdev/simdev.h"

namespace ferry {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;
using Body = std::function<Tensors(const Tensors&)>;

constexpr int kThreads = 1;

class SimOps : public testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override {
    at::set_num_threads(kThreads);
    c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
    SimOptions options;
    options.devices = {{256_MiB, kThreads, {}, {}, 0}, {256_MiB, kThreads, {}, {}, 0}};
    options.hazards = options.poison = options.strict = true;
    simdev_open(options);
  }
  void TearDown() override {
    for (const Hazard& hazard : simdev_hazards()) ADD_FAILURE() << to_string(hazard);
    simdev_close();
  }
};

Tensor random(at::IntArrayRef sizes, std::uint64_t seed = 1) {
  return at::randn(sizes, at::detail::createCPUGenerator(seed), at::kFloat);
}

Tensors on(const char* device, const Tensors& tensors) {
  Tensors moved;
  for (const Tensor& tensor : tensors) moved.push_back(tensor.to(c10::Device(device)));
  return moved;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  const Tensor x = a.contiguous(), y = b.contiguous();
  return x.sizes() == y.sizes() && x.scalar_type() == y.scalar_type() &&
         std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

void expect_same_bits(const Tensors& got, const Tensors& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(same_bits(got[i].cpu(), want[i]))
        << "output " << i << ", largest difference "
        << (got[i].cpu().to(at::kDouble) - want[i].to(at::kDouble)).abs().max().item<double>();
  }
}

/// Runs `body` on the CPU and on sim:0.
void expect_as_on_cpu(const Tensors& inputs, const Body& body) {
  const Tensors want = body(inputs);
  expect_same_bits(body(on("sim:0", inputs)), want);
}

/// The same for `body` and its gradients with respect to all floating-point inputs.
void expect_gradients_as_on_cpu(const Tensors& inputs,
                                const std::function<Tensor(const Tensors&)>& body) {
  expect_as_on_cpu(inputs, [&](const Tensors& tensors) {
    Tensors leaves, all;
    for (const Tensor& tensor : tensors) {
      Tensor leaf = tensor.detach();
      if (leaf.is_floating_point()) leaves.push_back(leaf.requires_grad_());
      all.push_back(leaf);
    }
    const Tensor y = body(all);
    const Tensor dy = random(y.sizes(), 99).to(y.scalar_type()).to(y.device());
    Tensors results = torch::autograd::grad({y}, leaves, {dy});
    results.push_back(y.detach());
    return results;
  });
}

TEST_P(SimOps, Linear) {
  const auto type = GetParam();
  expect_gradients_as_on_cpu(
      {random({2, 24, 64}).to(type), random({96, 64}, 2).to(type), random({96}, 3).to(type)},
      [](const Tensors& in) { return at::linear(in[0], in[1], in[2]); });
  expect_gradients_as_on_cpu({random({2, 24, 64}).to(type), random({96, 64}, 2).to(type)},
                             [](const Tensors& in) { return at::linear(in[0], in[1]); });
}

TEST_P(SimOps, LayerNorm) {
  const auto type = GetParam();
  expect_gradients_as_on_cpu(
      {random({2, 24, 64}).to(type), random({64}, 2).to(type), random({64}, 3).to(type)},
      [](const Tensors& in) { return at::layer_norm(in[0], {64}, in[1], in[2], 1e-5); });
  if (type == at::kFloat) return;
  // fp32 weights with bf16 activations keep fp32 statistics.
  expect_gradients_as_on_cpu(
      {random({2, 24, 64}).to(type), random({64}, 2), random({64}, 3)},
      [](const Tensors& in) { return at::layer_norm(in[0], {64}, in[1], in[2], 1e-5); });
}

TEST_P(SimOps, RmsNorm) {
  const auto type = GetParam();
  const Tensors inputs = {random({2, 24, 64}).to(type), random({64}, 2).to(type)};
  expect_gradients_as_on_cpu(
      inputs, [](const Tensors& in) { return at::rms_norm(in[0], {64}, in[1], 1e-6); });
  expect_gradients_as_on_cpu(inputs, [](const Tensors& in) {
    const Tensor x = in[0].to(at::kFloat);
    const Tensor scale = at::rsqrt(x.pow(2).mean(-1, true) + 1e-6);
    return in[1] * (x * scale).to(in[0].scalar_type());
  });
}

TEST_P(SimOps, RotaryEmbedding) {
  const auto type = GetParam();
  expect_gradients_as_on_cpu(
      {random({2, 4, 24, 16}).to(type), random({24, 16}, 2).to(type), random({24, 16}, 3).to(type)},
      [](const Tensors& in) {
        const auto halves = in[0].chunk(2, -1);
        return in[0] * in[1] + at::cat({-halves[1], halves[0]}, -1) * in[2];
      });
}

TEST_P(SimOps, CausalGroupedAttention) {
  const auto type = GetParam();
  for (const std::int64_t kv_heads : {4, 2, 1}) {
    expect_gradients_as_on_cpu(
        {random({2, 40, 64}).to(type), random({2, 40, 16 * kv_heads}, 2).to(type),
         random({2, 40, 16 * kv_heads}, 3).to(type)},
        [&](const Tensors& in) {
          const auto heads = [](const Tensor& x, std::int64_t n) {
            return x.view({2, 40, n, 16}).transpose(1, 2);
          };
          return at::scaled_dot_product_attention(
                     heads(in[0], 4), heads(in[1], kv_heads), heads(in[2], kv_heads),
                     /*attn_mask=*/{}, /*dropout_p=*/0.0, /*is_causal=*/true,
                     /*scale=*/std::nullopt, /*enable_gqa=*/kv_heads != 4)
              .transpose(1, 2)
              .reshape({2, 40, 64});
        });
  }
}

TEST_P(SimOps, Activations) {
  const auto type = GetParam();
  const Tensors inputs = {random({2, 24, 96}).to(type), random({2, 24, 96}, 2).to(type)};
  expect_gradients_as_on_cpu(inputs, [](const Tensors& in) { return at::silu(in[0]) * in[1]; });
  expect_gradients_as_on_cpu(inputs,
                             [](const Tensors& in) { return at::gelu(in[0], "tanh") * in[1]; });
  expect_gradients_as_on_cpu(inputs, [](const Tensors& in) { return at::gelu(in[0]) + in[1]; });
}

TEST_P(SimOps, Embedding) {
  const auto type = GetParam();
  const Tensor ids = at::randint(0, 50, {2, 24}, at::detail::createCPUGenerator(4), at::kLong);
  expect_gradients_as_on_cpu(
      {random({50, 32}).to(type), random({24, 32}, 2).to(type), ids},
      [](const Tensors& in) { return at::embedding(in[0], in[2]) + in[1].narrow(0, 0, 24); });
  expect_as_on_cpu({random({2, 24, 32}).to(type), ids}, [](const Tensors& in) {
    return Tensors{at::embedding_dense_backward(in[0], in[1], 50, -1, false)};
  });
}

TEST_P(SimOps, CrossEntropyOfFullLogits) {
  const Tensor labels = at::randint(0, 50, {48}, at::detail::createCPUGenerator(4), at::kLong);
  labels.narrow(0, 5, 3).fill_(-100);
  expect_gradients_as_on_cpu(
      {random({48, 32}).to(GetParam()), random({50, 32}, 2).to(GetParam()), labels},
      [](const Tensors& in) {
        const Tensor logits = at::linear(in[0], in[1]).to(at::kFloat);
        return at::cross_entropy_loss(logits, in[2], {}, at::Reduction::Sum).view({1});
      });
}

// The loop of a chunked head: logits of some rows at a time, the gradient on the spot.
TEST_P(SimOps, ChunkedCrossEntropy) {
  const auto type = GetParam();
  const Tensor labels = at::randint(0, 50, {48}, at::detail::createCPUGenerator(4), at::kLong);
  labels.narrow(0, 5, 3).fill_(-100);
  const Tensors inputs = {random({48, 32}).to(type), random({50, 32}, 2).to(type), labels};
  expect_as_on_cpu(inputs, [&](const Tensors& in) {
    const Tensor loss = at::zeros({1}, in[0].options().dtype(at::kFloat));
    const Tensor dh = at::empty_like(in[0]);
    Tensor dw = at::zeros({50, 32}, in[0].options().dtype(at::kFloat));
    for (std::int64_t row = 0; row < 48; row += 20) {
      const std::int64_t count = std::min<std::int64_t>(20, 48 - row);
      const Tensor h = in[0].narrow(0, row, count);
      const Tensor learned = in[2].narrow(0, row, count).ge(0);
      const Tensor label = in[2].narrow(0, row, count).clamp_min(0).unsqueeze(1);
      Tensor p = at::mm(h, in[1].t()).to(at::kFloat);
      const Tensor lse = at::logsumexp(p, {1}, true);
      loss.add_(((lse - p.gather(1, label)).squeeze(1) * learned).sum());
      p.sub_(lse).exp_();
      p.scatter_add_(1, label, at::full_like(lse, -1.0));
      p.mul_(learned.unsqueeze(1)).mul_(0.125);
      const Tensor half = p.to(type);
      dh.narrow(0, row, count).copy_(at::mm(half, in[1]));
      dw.addmm_(half.t().to(at::kFloat), h.to(at::kFloat));
    }
    return Tensors{loss, dh, dw};
  });
}

TEST_P(SimOps, SoftmaxIndexAndScatter) {
  const Tensor rows = at::randint(0, 48, {20}, at::detail::createCPUGenerator(4), at::kLong);
  expect_as_on_cpu({random({48, 32}).to(GetParam()), rows}, [](const Tensors& in) {
    const Tensor picked = in[0].index({in[1]});
    const Tensor selected = in[0].index_select(0, in[1]);
    const Tensor added = at::zeros_like(in[0]).index_add_(0, in[1], picked);
    const Tensor set = in[0].clone().scatter_(0, in[1].unsqueeze(1).expand({20, 32}), picked);
    const Tensor where = at::where(in[0] > 0, in[0], at::zeros_like(in[0]));
    return Tensors{at::softmax(in[0], -1),
                   at::log_softmax(in[0], -1),
                   picked,
                   selected,
                   added,
                   set,
                   where,
                   in[0].masked_fill(in[0] > 1, -1)};
  });
}

TEST_P(SimOps, GradientSums) {
  const auto type = GetParam();
  const Tensors inputs = {random({48, 32}), random({48, 32}, 2).to(type), random({32, 48}, 3)};
  expect_as_on_cpu(inputs, [](const Tensors& in) {
    Tensor sum = in[0].clone(), scaled = in[0].clone(), product = in[0].clone();
    sum.add_(in[1]);
    scaled.mul_(0.25).add_(in[1], 2.0);
    product.addmm_(in[0], at::mm(in[2], in[0]));
    const Tensor cast = at::empty_like(in[1]);
    cast.copy_(in[0]);
    return Tensors{sum,
                   scaled,
                   product,
                   cast,
                   in[1].sum(),
                   in[1].sum({0}, false, at::kFloat),
                   in[0].mean(1),
                   at::linalg_vector_norm(in[0]),
                   in[0].abs().max(),
                   in[0].amax({1}),
                   in[0].isfinite().all()};
  });
}

// fp32 weights are split into the bf16 that a device uses and the 16 bits below.
TEST_P(SimOps, SplittingWeightsInHalves) {
  expect_as_on_cpu({random({48, 32})}, [](const Tensors& in) {
    const Tensor bits = in[0].view(at::kInt);
    const Tensor high = at::bitwise_right_shift(bits, 16);
    const Tensor low = at::bitwise_and(bits, 0xFFFF);
    const Tensor whole = at::bitwise_or(at::bitwise_left_shift(high, 16), low);
    const Tensor flipped = at::bitwise_xor(whole, 0x55).view(at::kFloat);
    return Tensors{high.to(at::kShort).view(at::kBFloat16), low, whole.view(at::kFloat), flipped,
                   in[0].view(at::kByte)};
  });
}

TEST_P(SimOps, AdamWStep) {
  const auto type = GetParam();
  const Tensors inputs = {random({48, 32}), random({48, 32}, 2).to(type), random({48, 32}, 3),
                          random({48, 32}, 4).abs()};
  expect_as_on_cpu(inputs, [](const Tensors& in) {
    Tensor w = in[0].clone(), m = in[2].clone(), v = in[3].clone();
    const Tensor g = in[1].to(at::kFloat);
    w.mul_(1 - 1e-3);
    m.lerp_(g, 0.1);
    v.mul_(0.999).addcmul_(g, g, 0.001);
    w.addcdiv_(m, v.sqrt().div_(0.9).add_(1e-8), -1e-3);
    return Tensors{w, m, v};
  });
}

TEST_P(SimOps, FactoriesAndShapes) {
  const auto type = GetParam();
  expect_as_on_cpu({random({4, 6}).to(type)}, [](const Tensors& in) {
    const auto like = in[0].options();
    return Tensors{at::arange(7, like.dtype(at::kLong)),
                   at::full({3}, 2.5, like),
                   at::ones({2, 2}, like),
                   at::triu(at::ones({4, 4}, like), 1),
                   at::stack({in[0], in[0]}),
                   in[0].transpose(0, 1).contiguous(),
                   in[0].flip(0),
                   in[0].repeat({2, 1}),
                   at::pad(in[0], {0, 2}),
                   in[0].unfold(1, 3, 2).clone(),
                   at::cumsum(in[0], 1),
                   at::outer(in[0].select(0, 0), in[0].select(0, 1)),
                   at::cos(in[0]),
                   at::sin(in[0])};
  });
}

/// A whole block with grouped attention, both norms and a gated MLP.
struct Block {
  std::int64_t width = 64, heads = 4, kv_heads = 2, inner = 96, time = 32;

  Tensors weights(at::ScalarType type, std::uint64_t seed) const {
    const std::int64_t kv = width / heads * kv_heads;
    const auto matrix = [&](std::int64_t rows, std::int64_t columns) {
      return (random({rows, columns}, ++seed) / std::sqrt(static_cast<double>(columns))).to(type);
    };
    return {at::ones({width}, type),  matrix(width, width), matrix(kv, width),
            matrix(kv, width),        matrix(width, width), at::ones({width}, type),
            at::zeros({width}, type), matrix(inner, width), matrix(inner, width),
            matrix(width, inner)};
  }

  Tensor operator()(const Tensor& x, const Tensors& w) const {
    const std::int64_t batch = x.size(0), size = width / heads;
    const auto split = [&](const Tensor& t, std::int64_t n) {
      return t.view({batch, time, n, size}).transpose(1, 2);
    };
    const Tensor h = at::rms_norm(x, {width}, w[0], 1e-6);
    const Tensor attention = at::scaled_dot_product_attention(split(at::linear(h, w[1]), heads),
                                                              split(at::linear(h, w[2]), kv_heads),
                                                              split(at::linear(h, w[3]), kv_heads),
                                                              {}, 0.0, true, std::nullopt, true)
                                 .transpose(1, 2)
                                 .reshape({batch, time, width});
    const Tensor y = x + at::linear(attention, w[4]);
    const Tensor z = at::layer_norm(y, {width}, w[5], w[6], 1e-5);
    return y + at::linear(at::silu(at::linear(z, w[7])) * at::gelu(at::linear(z, w[8])), w[9]);
  }
};

/// Gradients of two blocks, the first on one device and the second on the other.
Tensors two_block_gradients(at::ScalarType type, c10::Device first, c10::Device second) {
  const Block block;
  Tensors leaves = {random({2, 32, 64}).to(type).to(first).requires_grad_()};
  std::vector<Tensors> weights;
  for (const auto& [seed, device] : {std::pair(10, first), std::pair(30, second)}) {
    weights.emplace_back();
    for (const Tensor& weight : block.weights(type, static_cast<std::uint64_t>(seed))) {
      weights.back().push_back(weight.to(device).detach().requires_grad_());
      leaves.push_back(weights.back().back());
    }
  }
  const Tensor y = block(block(leaves[0], weights[0]).to(second), weights[1]);
  Tensors gradients =
      torch::autograd::grad({y}, leaves, {random(y.sizes(), 99).to(type).to(second)});
  gradients.push_back(y.detach());
  return gradients;
}

TEST_P(SimOps, ABlockOnOneDevice) {
  const Tensors want = two_block_gradients(GetParam(), c10::kCPU, c10::kCPU);
  const c10::Device sim("sim:0");
  expect_same_bits(two_block_gradients(GetParam(), sim, sim), want);
  EXPECT_GT(simdev_stats(0).async_ops, 50);
  EXPECT_TRUE(simdev_stats(0).drains.empty());
}

TEST_P(SimOps, AGraphAcrossTwoDevices) {
  const Tensors want = two_block_gradients(GetParam(), c10::kCPU, c10::kCPU);
  expect_same_bits(two_block_gradients(GetParam(), c10::Device("sim:0"), c10::Device("sim:1")),
                   want);
}

TEST_P(SimOps, TwoHostThreadsWithADeviceEach) {
  const auto type = GetParam();
  const Tensors want = two_block_gradients(type, c10::kCPU, c10::kCPU);
  std::vector<Tensors> got(2);
  std::vector<std::thread> threads;
  for (int k = 0; k < 2; ++k) {
    threads.emplace_back([&, k] {
      at::set_num_threads(kThreads);
      c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
      const c10::Device device("sim:" + std::to_string(k));
      const c10::DeviceGuard guard(device);
      for (int repeat = 0; repeat < 3; ++repeat) {
        for (const Tensor& gradient :
             got[static_cast<std::size_t>(k)] = two_block_gradients(type, device, device)) {
          ASSERT_TRUE(gradient.defined());
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const Tensors& gradients : got) expect_same_bits(gradients, want);
}

INSTANTIATE_TEST_SUITE_P(Types, SimOps, testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& type) { return std::string(toString(type.param)); });

}  // namespace
}  // namespace ferry
