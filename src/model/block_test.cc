#include "model/block.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "model/embedding.h"
#include "model/testing.h"

namespace ferry {
namespace {

/// How far fp32 may be from exact, relative to the norm; about four times what any CPU's kernels
/// were seen to need. Two ways to compute one thing in fp32 are held to it as well.
constexpr double kForwardRounding = 2e-6, kBackwardRounding = 5e-6;

// The plain graph: every formula written out, attention with a mask. Nothing of it is shared with
// the code under test.

at::Tensor plain_rms_norm(const ModelSpec& model, const at::Tensor& x, const at::Tensor& weight) {
  return x / ((x * x).mean(-1, true) + model.norm_epsilon).sqrt() * weight;
}

at::Tensor plain_norm(const ModelSpec& model, const at::Tensor& x,
                      const std::vector<at::Tensor>& weights, std::size_t& next) {
  if (model.norm == NormKind::layer) {
    const at::Tensor centred = x - x.mean(-1, true);
    const at::Tensor variance = (centred * centred).mean(-1, true);
    next += 2;
    return centred / (variance + model.norm_epsilon).sqrt() * weights[next - 2] + weights[next - 1];
  }
  return plain_rms_norm(model, x, weights[next++]);
}

at::Tensor plain_linear(const ModelSpec& model, const at::Tensor& x, bool bias,
                        const std::vector<at::Tensor>& weights, std::size_t& next) {
  const at::Tensor weight = weights[next++];
  const at::Tensor y = at::matmul(x, model.input_first ? weight : weight.t());
  return bias ? y + weights[next++] : y;
}

/// x [batch, heads, time, dim], every position counted from the row's start.
at::Tensor plain_rotate(const ModelSpec& model, const at::Tensor& x) {
  const std::int64_t dim = model.head_dim, half = dim / 2;
  at::Tensor y = at::zeros_like(x);
  std::vector<at::Tensor> low, high;
  for (std::int64_t i = 0; i < half; ++i) {
    const double frequency =
        std::pow(model.rope.theta, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
    const at::Tensor angle = at::arange(x.size(2), x.options()) * frequency;
    const at::Tensor a = x.select(3, i), b = x.select(3, i + half);
    low.push_back(a * angle.cos() - b * angle.sin());
    high.push_back(b * angle.cos() + a * angle.sin());
  }
  low.insert(low.end(), high.begin(), high.end());
  return at::stack(low, 3);
}

at::Tensor plain_attention(const ModelSpec& model, const at::Tensor& x,
                           const std::vector<at::Tensor>& weights) {
  std::size_t next = 0;
  const auto by_head = [&](const at::Tensor& y) {
    return y.view({x.size(0), x.size(1), -1, model.head_dim});
  };
  const at::Tensor normed = plain_norm(model, x, weights, next);
  std::vector<at::Tensor> qkv;
  if (model.fused_qkv) {
    const std::int64_t q = model.heads * model.head_dim, k = model.kv_heads * model.head_dim;
    qkv =
        plain_linear(model, normed, model.qkv_bias, weights, next).split_with_sizes({q, k, k}, -1);
  } else {
    for (int i = 0; i < 3; ++i) {
      qkv.push_back(plain_linear(model, normed, model.qkv_bias, weights, next));
    }
  }
  for (at::Tensor& part : qkv) part = by_head(part);
  for (int i = 0; i < 2 && model.qk_norm; ++i) {
    qkv[i] = plain_rms_norm(model, qkv[i], weights[next++]);
  }
  for (at::Tensor& part : qkv) part = part.transpose(1, 2);
  for (int i = 0; i < 2 && model.positions == PositionKind::rotary; ++i) {
    qkv[i] = plain_rotate(model, qkv[i]);
  }
  const std::int64_t share = model.heads / model.kv_heads;
  const at::Tensor k = qkv[1].repeat_interleave(share, 1), v = qkv[2].repeat_interleave(share, 1);
  const at::Tensor future = at::ones({x.size(1), x.size(1)}, x.options().dtype(at::kBool)).triu(1);
  const at::Tensor scores =
      at::matmul(qkv[0], k.transpose(2, 3)) / std::sqrt(static_cast<double>(model.head_dim));
  const at::Tensor mixed =
      at::matmul(at::softmax(scores.masked_fill(future, -1e30), -1), v).transpose(1, 2);
  return x + plain_linear(model, mixed.reshape({x.size(0), x.size(1), -1}), model.output_bias,
                          weights, next);
}

at::Tensor plain_mlp(const ModelSpec& model, const at::Tensor& x,
                     const std::vector<at::Tensor>& weights) {
  std::size_t next = 0;
  const at::Tensor normed = plain_norm(model, x, weights, next);
  at::Tensor inner = plain_linear(model, normed, model.mlp_bias, weights, next);
  if (model.activation == Activation::gelu_tanh) {
    const at::Tensor cubic = inner + 0.044715 * inner * inner * inner;
    inner = 0.5 * inner * (1 + (std::sqrt(2 / M_PI) * cubic).tanh());
  } else {
    inner = inner * inner.sigmoid();
  }
  if (model.gated_mlp) inner = inner * plain_linear(model, normed, model.mlp_bias, weights, next);
  return x + plain_linear(model, inner, model.mlp_bias, weights, next);
}

at::Tensor plain_block(const ModelSpec& model, const BlockSpec& block, const at::Tensor& x,
                       const std::vector<at::Tensor>& weights) {
  if (block.kind == BlockKind::attention) return plain_attention(model, x, weights);
  if (block.kind == BlockKind::mlp) return plain_mlp(model, x, weights);
  std::size_t next = 0;
  return plain_norm(model, x, weights, next);
}

struct NamedModel {
  std::string name;
  ModelSpec model;
};

/// Every family, and mixes of parts that no family has: parts know nothing of each other.
std::vector<NamedModel> models() {
  std::vector<NamedModel> result;
  for (const std::string& family : family_names()) {
    const bool biased = family == "llama";
    result.push_back({family, small_model(family, biased ? R"(, "attention_bias": true)" : "")});
  }
  ModelSpec fused = small_model("llama");
  fused.norm = NormKind::layer;
  fused.fused_qkv = fused.input_first = fused.mlp_bias = true;
  result.push_back({"fused_rotary_grouped", fused});
  ModelSpec learned = small_model("gpt2");
  learned.norm = NormKind::rms;
  learned.input_first = learned.fused_qkv = learned.output_bias = false;
  learned.gated_mlp = learned.qk_norm = true;
  result.push_back({"learned_normed_gated", learned});
  for (NamedModel& mix : result) build_blocks(mix.model);
  return result;
}

class BlockOfModel : public testing::TestWithParam<NamedModel> {
 protected:
  void SetUp() override {
    at::manual_seed(7);
    SCOPED_TRACE("seed 7");
  }
  const ModelSpec& model = GetParam().model;
};

TEST_P(BlockOfModel, ForwardAndBackwardEqualThePlainGraphInDouble) {
  for (std::size_t i = 1; i + 1 < model.blocks.size(); ++i) {
    const BlockSpec& block = model.blocks[i];
    SCOPED_TRACE(to_string(block.kind));
    const std::vector<at::Tensor> weights = random_weights(block);
    const at::Tensor x = at::randn({2, 9, 32}), dy = at::randn({2, 9, 32});

    std::vector<at::Tensor> inputs{x.to(at::kDouble).requires_grad_()};
    for (const at::Tensor& weight : weights) {
      inputs.push_back(weight.to(at::kDouble).requires_grad_());
    }
    const at::Tensor y = plain_block(model, block, inputs[0], {inputs.begin() + 1, inputs.end()});
    const std::vector<at::Tensor> expected =
        torch::autograd::grad({y}, inputs, {dy.to(at::kDouble)});

    EXPECT_LT(relative_error(forward(model, block, x, weights), y.detach()), kForwardRounding);
    const BlockGradients found = backward(model, block, x, weights, dy);
    EXPECT_LT(relative_error(found.x, expected[0]), kBackwardRounding);
    ASSERT_EQ(found.weights.size(), block.params.size());
    for (std::size_t j = 0; j < weights.size(); ++j) {
      SCOPED_TRACE(block.params[j].name);
      EXPECT_TRUE(found.weights[j].is_contiguous());
      EXPECT_EQ(found.weights[j].sizes(), weights[j].sizes());
      // A key's bias shifts all scores of a query alike: its gradient is rounding around zero.
      if (expected[j + 1].norm().item<double>() > 1e-6) {
        EXPECT_LT(relative_error(found.weights[j], expected[j + 1]), kBackwardRounding);
      }
    }
  }
}

TEST_P(BlockOfModel, GradientsKeepTheTypeOfTheWeights) {
  for (std::size_t i = 1; i + 1 < model.blocks.size(); ++i) {
    const BlockSpec& block = model.blocks[i];
    const at::Tensor x = at::randn({2, 9, 32}).to(at::kBFloat16);
    const BlockGradients found =
        backward(model, block, x, random_weights(block, at::kBFloat16), at::randn_like(x));

    EXPECT_EQ(found.x.scalar_type(), at::kBFloat16);
    for (const at::Tensor& gradient : found.weights) {
      EXPECT_EQ(gradient.scalar_type(), at::kBFloat16);
    }
  }
}

TEST_P(BlockOfModel, PackedDocumentsEqualRowsOfTheirOwn) {
  const Positions packed{.documents = {5, 7, 4}};  // two rows of eight: the second crosses
  const std::vector<std::int64_t> starts{0, 5, 12};
  for (std::size_t i = 0; i + 2 < model.blocks.size(); ++i) {
    const BlockSpec& block = model.blocks[i];
    SCOPED_TRACE(to_string(block.kind));
    const std::vector<at::Tensor> weights = random_weights(block);
    const bool embedding = block.kind == BlockKind::embedding;
    const at::Tensor x = embedding ? at::randint(50, {2, 8}) : at::randn({2, 8, 32});
    const at::Tensor flat = embedding ? x.view({1, 16}) : x.view({1, 16, 32});
    const at::Tensor dy = at::randn({2, 8, 32});

    const at::Tensor y = forward(model, block, x, weights, packed).view({1, 16, 32});
    const BlockGradients found = backward(model, block, x, weights, dy, packed);
    std::vector<at::Tensor> sums;
    for (const at::Tensor& weight : weights) sums.push_back(at::zeros_like(weight));
    for (std::size_t d = 0; d < starts.size(); ++d) {
      const auto part = [&](const at::Tensor& whole) {
        return whole.narrow(1, starts[d], packed.documents[d]);
      };
      const at::Tensor row = part(flat);
      EXPECT_LT(relative_error(part(y), forward(model, block, row, weights)), kForwardRounding);
      const BlockGradients alone = backward(model, block, row, weights, part(dy.view({1, 16, 32})));
      if (!embedding) {
        EXPECT_LT(relative_error(part(found.x.view({1, 16, 32})), alone.x), kBackwardRounding);
      }
      for (std::size_t j = 0; j < sums.size(); ++j) sums[j].add_(alone.weights[j]);
    }
    for (std::size_t j = 0; j < sums.size(); ++j) {
      SCOPED_TRACE(block.params[j].name);
      if (sums[j].norm().item<double>() > 1e-5) {
        EXPECT_LT(relative_error(found.weights[j], sums[j]), kBackwardRounding);
      }
    }
  }
}

// The engine enqueues whole stages; one operator that reads a value back would stop it.
TEST_P(BlockOfModel, NothingIsReadBackToTheHost) {
  const std::set<std::string> waits{"aten::item",    "aten::_local_scalar_dense",
                                    "aten::nonzero", "aten::is_nonzero",
                                    "aten::equal",   "aten::masked_select"};
  const CallRecorder recorder;
  for (const Positions& positions : {Positions{}, Positions{.documents = {5, 7, 4}}}) {
    for (std::size_t i = 0; i + 1 < model.blocks.size(); ++i) {
      const BlockSpec& block = model.blocks[i];
      const std::vector<at::Tensor> weights = random_weights(block);
      const at::Tensor x = i == 0 ? at::randint(50, {2, 8}) : at::randn({2, 8, 32});
      const at::Tensor y = forward(model, block, x, weights, positions);
      backward(model, block, x, weights, y, positions);
    }
  }
  ASSERT_GT(recorder.calls().size(), 50u);
  for (const Call& call : recorder.calls()) EXPECT_EQ(waits.count(call.name), 0u) << call.name;
}

// Products counted as they are called; attention is in one fused operator, so only what
// forward_flops() adds for it is left.
TEST_P(BlockOfModel, ForwardCallsTheProductsThatItsFlopsCount) {
  const BatchShape shape{.batch = 2, .time = 8};
  for (std::size_t i = 1; i < model.blocks.size(); ++i) {
    const BlockSpec& block = model.blocks[i];
    SCOPED_TRACE(to_string(block.kind));
    std::vector<at::Tensor> weights = random_weights(block);
    if (weights.empty()) weights = {at::randn({50, 32})};
    const at::Tensor x = at::randn({2, 8, 32});
    const CallRecorder recorder;
    forward(model, block, x, weights);

    double flops = 0;
    for (const Call& call : recorder.calls()) {
      if (call.name != "aten::mm" && call.name != "aten::addmm") continue;
      const std::vector<std::int64_t>& left = call.sizes[call.sizes.size() - 2];
      flops += 2.0 * static_cast<double>(left[0] * left[1] * call.sizes.back()[1]);
    }
    if (block.kind == BlockKind::attention) {
      flops += 4.0 * (2 * 4 * 36) * static_cast<double>(model.head_dim);
    }
    EXPECT_EQ(flops, forward_flops(model, block, shape));
  }
}

// The slot moves between the passes, as a swapped one does, and the old one is overwritten; so do x
// and the weights.
TEST_P(BlockOfModel, BackwardOfASavedForwardGivesTheBitsOfRecompute) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const Positions& positions : {Positions{}, Positions{.documents = {5, 7, 4}}}) {
      for (std::size_t i = 1; i + 2 < model.blocks.size(); ++i) {
        const BlockSpec& block = model.blocks[i];
        SCOPED_TRACE(to_string(block.kind) + (type == at::kFloat ? " fp32" : " bf16"));
        const std::vector<at::Tensor> weights = random_weights(block, type);
        const at::Tensor x = at::randn({2, 8, 32}).to(type), dy = at::randn({2, 8, 32}).to(type);
        const BlockGradients expected = backward(model, block, x, weights, dy, positions);

        const Bytes size = forward_saving(model, block, x, weights, {}, positions).bytes;
        const at::Tensor slot = at::empty({size.count}, at::kByte);
        const SavingResult kept = forward_saving(model, block, x, weights, slot, positions);
        EXPECT_EQ(kept.bytes, size);
        EXPECT_TRUE(kept.y.equal(forward(model, block, x, weights, positions)));

        const at::Tensor moved = slot.clone();
        slot.fill_(0x7f);
        std::vector<at::Tensor> elsewhere;
        for (const at::Tensor& weight : weights) elsewhere.push_back(weight.clone());
        const BlockGradients found =
            backward_saved(model, block, x.clone(), elsewhere, dy, moved, *kept.saved);
        EXPECT_TRUE(found.x.equal(expected.x));
        ASSERT_EQ(found.weights.size(), expected.weights.size());
        for (std::size_t j = 0; j < expected.weights.size(); ++j) {
          EXPECT_TRUE(found.weights[j].equal(expected.weights[j])) << block.params[j].name;
        }
      }
    }
  }
}

// A slot for the worse of the two holds any documents.
TEST_P(BlockOfModel, NoDocumentsSaveMoreThanNoneOrOnePerToken) {
  for (std::size_t i = 1; i + 2 < model.blocks.size(); ++i) {
    const BlockSpec& block = model.blocks[i];
    const std::vector<at::Tensor> weights = random_weights(block);
    const at::Tensor x = at::randn({2, 8, 32});
    const auto bytes = [&](std::vector<std::int64_t> documents) {
      return forward_saving(model, block, x, weights, {}, {.documents = std::move(documents)})
          .bytes;
    };
    const Bytes most = std::max(bytes({}), bytes(std::vector<std::int64_t>(16, 1)));
    for (const auto& documents : {std::vector<std::int64_t>{8, 8}, {3, 5, 1, 7}, {2, 2, 4, 8}}) {
      EXPECT_LE(bytes(documents), most) << to_string(block.kind);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, BlockOfModel, testing::ValuesIn(models()),
                         [](const auto& parameter) { return parameter.param.name; });

TEST(Block, BackwardTwiceGivesTheSameBits) {
  const ModelSpec model = small_model("qwen3");
  const std::vector<at::Tensor> weights = random_weights(model.blocks[1]);
  const at::Tensor x = at::randn({2, 16, 32}), dy = at::randn({2, 16, 32});

  const BlockGradients first = backward(model, model.blocks[1], x, weights, dy);
  const BlockGradients second = backward(model, model.blocks[1], x, weights, dy);
  EXPECT_TRUE(first.x.equal(second.x));
  for (std::size_t j = 0; j < weights.size(); ++j) {
    EXPECT_TRUE(first.weights[j].equal(second.weights[j]));
  }
}

TEST(Block, NoGraphIsLeftBehind) {
  const ModelSpec model = small_model("llama");
  const std::vector<at::Tensor> weights = random_weights(model.blocks[1]);
  const at::Tensor x = at::randn({2, 8, 32});

  EXPECT_FALSE(forward(model, model.blocks[1], x, weights).requires_grad());
  const BlockGradients found = backward(model, model.blocks[1], x, weights, x);
  EXPECT_FALSE(found.x.requires_grad());
  for (const at::Tensor& weight : weights) {
    EXPECT_FALSE(weight.requires_grad());
    EXPECT_EQ(weight.use_count(), 1u);
  }
  EXPECT_EQ(x.use_count(), 1u);
}

TEST(Block, ASavedForwardHoldsNoTensors) {
  const ModelSpec model = small_model("llama");
  for (const std::size_t i : {1U, 2U}) {
    const std::vector<at::Tensor> weights = random_weights(model.blocks[i]);
    const at::Tensor x = at::randn({2, 8, 32});
    const at::Tensor slot = at::empty({1 << 20}, at::kByte);
    const SavingResult kept = forward_saving(model, model.blocks[i], x, weights, slot);
    EXPECT_FALSE(kept.y.requires_grad());
    EXPECT_EQ(slot.use_count(), 1u);
    EXPECT_EQ(x.use_count(), 1u);
  }
}

TEST(Block, ASlotThatIsTooSmallIsRefused) {
  const ModelSpec model = small_model("llama");
  const std::vector<at::Tensor> weights = random_weights(model.blocks[1]);
  const at::Tensor x = at::randn({2, 8, 32});
  const Bytes size = forward_saving(model, model.blocks[1], x, weights, {}).bytes;
  const at::Tensor slot = at::empty({size.count - 1}, at::kByte);
  EXPECT_THROW(forward_saving(model, model.blocks[1], x, weights, slot), ResourceError);
}

TEST(Block, EmbeddingGradientSumsOverRepeatedTokens) {
  const ModelSpec model = small_model("llama");
  const at::Tensor ids = at::tensor({3, 1, 3, 3}, at::kLong).view({1, 4});
  const at::Tensor dy = at::ones({1, 4, 32});
  std::vector<at::Tensor> sums{at::ones({50, 32})};

  add_embedding_gradient(model, ids, dy, sums);
  EXPECT_EQ(sums[0][3][0].item<float>(), 4.0f);
  EXPECT_EQ(sums[0][1][0].item<float>(), 2.0f);
  EXPECT_EQ(sums[0][0][0].item<float>(), 1.0f);
}

// As torch's nn.Embedding has it. What a tied head has put there stays.
TEST(Block, PaddingGetsNoGradientAsAnEmbedding) {
  ModelSpec model = small_model("llama");
  model.padding = 3;
  const at::Tensor ids = at::tensor({3, 1, 3, 2}, at::kLong).view({1, 4});
  const at::Tensor dy = at::randn({1, 4, 32}), before = at::randn({50, 32});
  const std::vector<at::Tensor> sums{before.clone()};

  add_embedding_gradient(model, ids, dy, sums);
  const at::Tensor added = at::embedding_dense_backward(dy, ids, 50, 3, false);
  EXPECT_TRUE(at::equal(sums[0], before + added));
  EXPECT_TRUE(at::equal(sums[0][3], before[3]));
}

}  // namespace
}  // namespace ferry
