#include "spec/model_spec.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace ferry {
namespace {

/// Collects the parameters of one block under its name in the checkpoint.
class ParamList {
 public:
  explicit ParamList(std::string prefix) : prefix_(std::move(prefix)) {}

  void add(const std::string& name, std::vector<std::int64_t> shape) {
    params_.push_back({prefix_ + name, std::move(shape)});
  }
  /// A weight stored [out, in], as torch's Linear has it.
  void linear(const std::string& name, std::int64_t in, std::int64_t out, bool bias) {
    add(name + ".weight", {out, in});
    if (bias) add(name + ".bias", {out});
  }
  /// A weight stored [in, out] and always biased, as GPT-2's Conv1D has it.
  void conv1d(const std::string& name, std::int64_t in, std::int64_t out) {
    add(name + ".weight", {in, out});
    add(name + ".bias", {out});
  }
  void layer_norm(const std::string& name, std::int64_t size) {
    add(name + ".weight", {size});
    add(name + ".bias", {size});
  }
  std::vector<ParamSpec> take() { return std::move(params_); }

 private:
  std::string prefix_;
  std::vector<ParamSpec> params_;
};

std::vector<ParamSpec> gpt2_params(const ModelSpec& model, BlockKind kind, int layer) {
  ParamList list("transformer." + (layer < 0 ? "" : "h." + std::to_string(layer) + "."));
  const std::int64_t h = model.hidden;
  switch (kind) {
    case BlockKind::embedding:
      list.add("wte.weight", {model.vocab, h});
      list.add("wpe.weight", {model.max_positions, h});
      break;
    case BlockKind::attention:
      list.layer_norm("ln_1", h);
      list.conv1d("attn.c_attn", h, 3 * h);
      list.conv1d("attn.c_proj", h, h);
      break;
    case BlockKind::mlp:
      list.layer_norm("ln_2", h);
      list.conv1d("mlp.c_fc", h, model.intermediate);
      list.conv1d("mlp.c_proj", model.intermediate, h);
      break;
    case BlockKind::norm:
      list.layer_norm("ln_f", h);
      break;
    case BlockKind::head:
      FERRY_UNREACHABLE("the head's weight has no prefix");
  }
  return list.take();
}

std::vector<ParamSpec> llama_params(const ModelSpec& model, BlockKind kind, int layer) {
  ParamList list("model." + (layer < 0 ? "" : "layers." + std::to_string(layer) + "."));
  const std::int64_t h = model.hidden;
  const std::int64_t queries = model.heads * model.head_dim;
  const std::int64_t keys = model.kv_heads * model.head_dim;
  switch (kind) {
    case BlockKind::embedding:
      list.add("embed_tokens.weight", {model.vocab, h});
      break;
    case BlockKind::attention:
      list.add("input_layernorm.weight", {h});
      list.linear("self_attn.q_proj", h, queries, model.qkv_bias);
      list.linear("self_attn.k_proj", h, keys, model.qkv_bias);
      list.linear("self_attn.v_proj", h, keys, model.qkv_bias);
      if (model.qk_norm) {
        list.add("self_attn.q_norm.weight", {model.head_dim});
        list.add("self_attn.k_norm.weight", {model.head_dim});
      }
      list.linear("self_attn.o_proj", queries, h, model.output_bias);
      break;
    case BlockKind::mlp:
      list.add("post_attention_layernorm.weight", {h});
      list.linear("mlp.gate_proj", h, model.intermediate, model.mlp_bias);
      list.linear("mlp.up_proj", h, model.intermediate, model.mlp_bias);
      list.linear("mlp.down_proj", model.intermediate, h, model.mlp_bias);
      break;
    case BlockKind::norm:
      list.add("norm.weight", {h});
      break;
    case BlockKind::head:
      FERRY_UNREACHABLE("the head's weight has no prefix");
  }
  return list.take();
}

std::vector<ParamSpec> block_params(const ModelSpec& model, BlockKind kind, int layer) {
  if (kind == BlockKind::head) {
    if (model.tied) return {};
    return {{"lm_head.weight", {model.vocab, model.hidden}}};
  }
  return model.family == Family::gpt2 ? gpt2_params(model, kind, layer)
                                      : llama_params(model, kind, layer);
}

/// 2 m k n summed over the products of `tokens` rows with every weight matrix of the block.
double product_flops(const BlockSpec& block, double tokens) {
  double flops = 0;
  for (const ParamSpec& param : block.params) {
    if (param.shape.size() == 2) flops += 2.0 * tokens * static_cast<double>(param.numel());
  }
  return flops;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t size : shape) text += (text.empty() ? "" : "x") + std::to_string(size);
  return text;
}

}  // namespace

std::int64_t ParamSpec::numel() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::int64_t BlockSpec::numel() const {
  std::int64_t total = 0;
  for (const ParamSpec& param : params) total += param.numel();
  return total;
}

void build_blocks(ModelSpec& model) {
  model.blocks.clear();
  model.edges.clear();
  const auto append = [&model](BlockKind kind, int layer) {
    model.blocks.push_back({kind, layer, block_params(model, kind, layer)});
  };
  append(BlockKind::embedding, -1);
  for (int layer = 0; layer < model.layers; ++layer) {
    append(BlockKind::attention, layer);
    append(BlockKind::mlp, layer);
  }
  append(BlockKind::norm, -1);
  append(BlockKind::head, -1);
  for (int to = 1; to < static_cast<int>(model.blocks.size()); ++to) {
    model.edges.push_back({to - 1, to});
  }
}

std::size_t head_weight_owner(const ModelSpec& model) {
  FERRY_CHECK(!model.blocks.empty(), "the model has no blocks");
  return model.tied ? 0 : model.blocks.size() - 1;
}

std::int64_t longest_sequence(const ModelSpec& model) {
  return model.window > 0 ? std::min(model.window, model.max_positions) : model.max_positions;
}

void check_sequence(const ModelSpec& model, std::int64_t time) {
  const std::int64_t longest = longest_sequence(model);
  if (time <= longest) return;
  const std::string limit = longest == model.max_positions
                                ? "the model's positions"
                                : "the model's sliding attention window, which ferry does not have";
  throw UserError("a sequence of " + std::to_string(time) + " tokens is longer than " + limit +
                  ": at most " + std::to_string(longest) + " tokens");
}

std::int64_t parameters(const ModelSpec& model) {
  std::int64_t total = 0;
  for (const BlockSpec& block : model.blocks) total += block.numel();
  return total;
}

double forward_flops(const ModelSpec& model, const BlockSpec& block, BatchShape shape) {
  const double tokens = static_cast<double>(shape.tokens());
  switch (block.kind) {
    case BlockKind::embedding:
    case BlockKind::norm:
      return 0;
    case BlockKind::mlp:
      return product_flops(block, tokens);
    case BlockKind::head:
      return 2.0 * tokens * static_cast<double>(model.hidden) * static_cast<double>(model.vocab);
    case BlockKind::attention: {
      const double pairs = tokens * static_cast<double>(shape.time + 1) / 2;
      return product_flops(block, tokens) +
             4.0 * pairs * static_cast<double>(model.heads * model.head_dim);
    }
  }
  FERRY_UNREACHABLE("unknown kind of block");
}

Bytes activation_bytes(const ModelSpec& model, BatchShape shape, Bytes element) {
  return shape.tokens() * model.hidden * element;
}

std::string similarity_key(const ModelSpec& model, const BlockSpec& block) {
  std::string key = to_string(block.kind);
  switch (block.kind) {
    case BlockKind::embedding:
    case BlockKind::norm:
    case BlockKind::mlp:
      break;
    case BlockKind::attention:
      key += " heads " + std::to_string(model.heads) + "/" + std::to_string(model.kv_heads) + "x" +
             std::to_string(model.head_dim);
      break;
    case BlockKind::head:  // a tied head multiplies by the same shape as one of its own
      return key + " " + shape_text({model.vocab, model.hidden});
  }
  for (const ParamSpec& param : block.params) key += " " + shape_text(param.shape);
  return key;
}

std::string to_string(Family family) {
  switch (family) {
    case Family::gpt2:
      return "gpt2";
    case Family::llama:
      return "llama";
    case Family::mistral:
      return "mistral";
    case Family::qwen2:
      return "qwen2";
    case Family::qwen3:
      return "qwen3";
  }
  FERRY_UNREACHABLE("unknown family");
}

std::string to_string(BlockKind kind) {
  switch (kind) {
    case BlockKind::embedding:
      return "embedding";
    case BlockKind::attention:
      return "attention";
    case BlockKind::mlp:
      return "mlp";
    case BlockKind::norm:
      return "norm";
    case BlockKind::head:
      return "head";
  }
  FERRY_UNREACHABLE("unknown kind of block");
}

}  // namespace ferry
