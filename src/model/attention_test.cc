#include "model/attention.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "model/testing.h"

namespace ferry {
namespace {

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
  const auto attention = std::find_if(model.blocks.begin(), model.blocks.end(),
                                      [](const auto& b) { return b.kind == BlockKind::attention; });
  std::vector<at::Tensor> weights;  // between the norm and the output projection
  for (std::size_t i = 1; i + 1 < attention->params.size(); ++i) {
    weights.push_back(at::randn(attention->params[i].shape));
  }
  const at::Tensor x = at::randn({3, 8, model.hidden});
  const at::Tensor together = join_attention(project_attention(model, x, weights, {}));
  const at::Tensor apart =
      join_attention(project_attention(model, x, weights, {.documents = {8, 8, 8}}));
  EXPECT_TRUE(at::allclose(together, apart, 1e-5, 1e-6));
}

}  // namespace
}  // namespace ferry
