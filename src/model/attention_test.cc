#include "model/attention.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/library.h>

#include <algorithm>
#include <span>

#include "model/block.h"
#include "model/testing.h"

namespace ferry {
namespace {

using at::Tensor;

/// FlashAttention's two operators on the CPU, where torch has none: they take what the kernels of
/// CUDA take, and nothing else, and attend to one document after another.
class FlashOnCpu {
 public:
  FlashOnCpu() : library_(torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, __LINE__) {
    calls = 0;
    library_.impl("_flash_attention_forward",
                  torch::CppFunction::makeFromBoxedFunction<&forward>());
    library_.impl("_flash_attention_backward",
                  torch::CppFunction::makeFromBoxedFunction<&backward>());
  }

  static inline int calls;

 private:
  using Arguments = std::vector<c10::IValue>;

  static Arguments take(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
    return torch::jit::pop(*stack, op.schema().arguments().size());
  }

  /// starts, key_starts, longest, longest_key, dropout, causal
  static void check(std::span<const c10::IValue> in) {
    EXPECT_TRUE(in[0].toTensor().equal(in[1].toTensor()));
    EXPECT_EQ(in[2].toInt(), in[3].toInt());
    EXPECT_EQ(in[4].toDouble(), 0);
    EXPECT_TRUE(in[5].toBool());
  }

  /// (q, k, v, what check() says, debug, options) -> y, logsumexp, random state, unused, debug
  static void forward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
    ++calls;
    const Arguments in = take(op, stack);
    check(std::span(in).subspan(3));
    EXPECT_FALSE(in[9].toBool());
    for (std::size_t i = 10; i < in.size(); ++i) EXPECT_TRUE(in[i].isNone()) << i;
    const Tensor q = in[0].toTensor();
    const Tensor y = attend(q, in[1].toTensor(), in[2].toTensor(), in[3].toTensor(), in[5].toInt());
    torch::jit::push(*stack, y, at::zeros({q.size(1), q.size(0)}), at::empty({2}, at::kLong),
                     at::empty({}, at::kLong), Tensor());
  }

  /// (dy, q, k, v, y, logsumexp, what check() says, random state, unused, options) -> dq, dk, dv
  static void backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
    const Arguments in = take(op, stack);
    check(std::span(in).subspan(6));
    for (std::size_t i = 14; i < in.size(); ++i) EXPECT_TRUE(in[i].isNone()) << i;
    // torch calls it below autograd.
    const c10::impl::ForceDispatchKeyGuard as_a_caller(c10::default_included_set,
                                                       c10::default_excluded_set);
    const at::AutoGradMode record(true);
    std::vector<Tensor> inputs;
    for (std::size_t i = 1; i <= 3; ++i) {
      inputs.push_back(in[i].toTensor().detach().requires_grad_());
    }
    const Tensor y = attend(inputs[0], inputs[1], inputs[2], in[6].toTensor(), in[8].toInt());
    EXPECT_TRUE(y.detach().equal(in[4].toTensor()));
    EXPECT_EQ(in[5].toTensor().sizes(), (std::vector{y.size(1), y.size(0)}));
    for (Tensor& gradient : torch::autograd::grad({y}, inputs, {in[0].toTensor()})) {
      torch::jit::push(*stack, std::move(gradient));
    }
  }

  static Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& starts,
                       std::int64_t longest) {
    EXPECT_TRUE(q.dim() == 3 && k.dim() == 3 && v.sizes() == k.sizes() && q.size(0) == k.size(0));
    EXPECT_TRUE(q.stride(2) == 1 && k.stride(2) == 1 && v.stride(2) == 1);
    EXPECT_TRUE(starts.scalar_type() == at::kInt && starts.is_contiguous());
    EXPECT_EQ(starts[0].item<int>(), 0);
    EXPECT_EQ(starts[-1].item<int>(), q.size(0));
    EXPECT_EQ(starts.diff().max().item<int>(), longest);
    std::vector<Tensor> parts;
    for (int i = 0; i + 1 < starts.size(0); ++i) {
      const auto rows = [&](const Tensor& x) {
        const int begin = starts[i].item<int>(), end = starts[i + 1].item<int>();
        return x.narrow(0, begin, end - begin).unsqueeze(0).transpose(1, 2);
      };
      const Tensor y = at::scaled_dot_product_attention(
          rows(q), rows(k), rows(v), std::nullopt, 0.0, true, std::nullopt, q.size(1) != k.size(1));
      parts.push_back(y.transpose(1, 2).squeeze(0));
    }
    return at::cat(parts);
  }

  torch::Library library_;
};

const BlockSpec& attention_of(const ModelSpec& model) {
  return *std::ranges::find(model.blocks, BlockKind::attention, &BlockSpec::kind);
}

// Heads 0, 1, 2 read group 0, heads 3, 4, 5 group 1: a head that is not beside its group would give
// other values by far.
TEST(Attention, RepeatedHeadsGiveWhatGroupsGive) {
  at::manual_seed(3);
  const at::Tensor q = at::randn({2, 6, 9, 4}), dy = at::randn({2, 6, 9, 4});
  const auto attended = [&](bool repeats) {
    const at::AutoGradMode record(true);
    const at::Tensor k = at::ones({2, 9, 2, 4}).cumsum(1).cumsum(2).div_(9).sin_().requires_grad_();
    const at::Tensor v = at::randn({2, 9, 2, 4}).requires_grad_();
    v.detach().copy_(at::arange(144).view({2, 9, 2, 4}));
    const at::Tensor keys = repeats ? repeat_heads(k, 6) : k;
    const at::Tensor values = repeats ? repeat_heads(v, 6) : v;
    const at::Tensor y = at::scaled_dot_product_attention(
        q, keys.transpose(1, 2), values.transpose(1, 2), std::nullopt, 0.0, /*is_causal=*/true,
        std::nullopt, /*enable_gqa=*/!repeats);
    y.backward(dy);
    return std::vector<at::Tensor>{y.detach(), k.grad(), v.grad()};
  };
  const auto groups = attended(false), heads = attended(true);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    EXPECT_TRUE(at::allclose(groups[i], heads[i], 1e-5, 1e-5)) << i;
  }
}

TEST(Attention, OnlyCudasFp32NeedsAsManyHeads) {
  EXPECT_TRUE(needs_equal_heads(at::Device(at::kCUDA, 0), at::kFloat));
  EXPECT_FALSE(needs_equal_heads(at::Device(at::kCUDA, 0), at::kBFloat16));
  EXPECT_FALSE(needs_equal_heads(at::Device(at::kCPU), at::kFloat));
}

TEST(Attention, OfAllRowsAtOnceIsThatOfEachRow) {
  at::manual_seed(4);
  const ModelSpec model = small_model("llama");
  const BlockSpec& attention = attention_of(model);
  std::vector<at::Tensor> weights;  // between the norm and the output projection
  for (std::size_t i = 1; i + 1 < attention.params.size(); ++i) {
    weights.push_back(at::randn(attention.params[i].shape));
  }
  const at::Tensor x = at::randn({3, 8, model.hidden});
  const at::Tensor together = join_attention(project_attention(model, x, weights, {}));
  const at::Tensor apart =
      join_attention(project_attention(model, x, weights, {.documents = {8, 8, 8}}));
  EXPECT_TRUE(at::allclose(together, apart, 1e-5, 1e-6));
}

/// Output, gradients, and gradients from what a forward kept.
std::vector<Tensor> results(const ModelSpec& model, const Tensor& x, const Tensor& dy,
                            const std::vector<Tensor>& weights, const Positions& positions) {
  const BlockSpec& block = attention_of(model);
  std::vector<Tensor> found{forward(model, block, x, weights, positions)};
  const auto add = [&](const BlockGradients& gradients) {
    found.push_back(gradients.x);
    found.insert(found.end(), gradients.weights.begin(), gradients.weights.end());
  };
  add(backward(model, block, x, weights, dy, positions));
  const Bytes kept = forward_saving(model, block, x, weights, {}, positions).bytes;
  const Tensor slot = at::zeros({kept.count}, at::kByte);
  const SavingResult saving = forward_saving(model, block, x, weights, slot, positions);
  found.push_back(saving.y);
  add(backward_saved(model, block, x, weights, dy, slot, *saving.saved));
  return found;
}

// The kernel itself is CUDA's; what it is called with and how its gradients are found is shown
// here.
TEST(Attention, OfAllDocumentsIsOneCallWhereADeviceHasAKernelForIt) {
  at::manual_seed(5);
  for (const char* family : {"llama", "gpt2"}) {
    const ModelSpec model = small_model(family);
    const std::vector<Tensor> weights = random_weights(attention_of(model));
    const Tensor x = at::randn({2, 16, model.hidden}), dy = at::randn({2, 16, model.hidden});
    const Positions positions{.documents = {5, 1, 10, 9, 7}};
    const std::vector<Tensor> apart = results(model, x, dy, weights, positions);
    const FlashOnCpu flash;
    const std::vector<Tensor> together = results(model, x, dy, weights, positions);
    EXPECT_EQ(FlashOnCpu::calls, 4) << "forward, backward's own, and two that keep";
    ASSERT_EQ(together.size(), apart.size());
    for (std::size_t i = 0; i < apart.size(); ++i) {
      EXPECT_TRUE(at::allclose(together[i], apart[i], 1e-5, 1e-5)) << family << ' ' << i;
    }
  }
}

}  // namespace
}  // namespace ferry
