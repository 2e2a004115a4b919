#include "spec/model_spec.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/device_block.h"
#include "base/error.h"

namespace ferry {
namespace {

/// Collects the parameters of one block by the parts that it is made of.
class ParamList {
 public:
  /// `prefix` starts every name.
  ParamList(const ModelSpec& model, std::string prefix)
      : model_(model), prefix_(std::move(prefix)) {}

  void weight(const std::string& name, std::vector<std::int64_t> shape) {
    params_.push_back({prefix_ + name + ".weight", std::move(shape)});
  }
  void bias(const std::string& name, std::int64_t size) {
    params_.push_back({prefix_ + name + ".bias", {size}});
  }
  void projection(const std::string& name, std::int64_t in, std::int64_t out, bool biased) {
    weight(name, model_.input_first ? std::vector{in, out} : std::vector{out, in});
    if (biased) bias(name, out);
  }
  void norm(const std::string& name) {
    weight(name, {model_.hidden});
    if (model_.norm == NormKind::layer) bias(name, model_.hidden);
  }
  std::vector<ParamSpec> take() { return std::move(params_); }

 private:
  const ModelSpec& model_;
  std::string prefix_;
  std::vector<ParamSpec> params_;
};

void list_embedding(const ModelSpec& model, ParamList& list) {
  list.weight(model.names.tokens, {model.vocab, model.hidden});
  if (model.positions == PositionKind::learned) {
    list.weight(model.names.positions, {model.max_positions, model.hidden});
  }
}

void list_attention(const ModelSpec& model, ParamList& list) {
  const ParamNames& names = model.names;
  const std::int64_t queries = model.heads * model.head_dim;
  const std::int64_t keys = model.kv_heads * model.head_dim;
  list.norm(names.attention_norm);
  if (model.fused_qkv) {
    list.projection(names.qkv, model.hidden, queries + 2 * keys, model.qkv_bias);
  } else {
    list.projection(names.query, model.hidden, queries, model.qkv_bias);
    list.projection(names.key, model.hidden, keys, model.qkv_bias);
    list.projection(names.value, model.hidden, keys, model.qkv_bias);
  }
  if (model.qk_norm) {
    list.weight(names.query_norm, {model.head_dim});
    list.weight(names.key_norm, {model.head_dim});
  }
  list.projection(names.output, queries, model.hidden, model.output_bias);
}

void list_mlp(const ModelSpec& model, ParamList& list) {
  const ParamNames& names = model.names;
  list.norm(names.mlp_norm);
  if (model.gated_mlp) {
    list.projection(names.gate, model.hidden, model.intermediate, model.mlp_bias);
  }
  list.projection(names.up, model.hidden, model.intermediate, model.mlp_bias);
  list.projection(names.down, model.intermediate, model.hidden, model.mlp_bias);
}

std::vector<ParamSpec> block_params(const ModelSpec& model, BlockKind kind, int layer) {
  const std::string within = layer < 0 ? "" : model.names.layers + std::to_string(layer) + ".";
  ParamList list(model, kind == BlockKind::head ? "" : model.names.body + within);
  switch (kind) {
    case BlockKind::embedding:
      list_embedding(model, list);
      break;
    case BlockKind::attention:
      list_attention(model, list);
      break;
    case BlockKind::mlp:
      list_mlp(model, list);
      break;
    case BlockKind::norm:
      list.norm(model.names.final_norm);
      break;
    case BlockKind::head:
      if (!model.tied) list.weight(model.names.head, {model.vocab, model.hidden});
      break;
  }
  return list.take();
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

Bytes rotary_bytes(const ModelSpec& model, std::int64_t time, Bytes element) {
  if (model.positions != PositionKind::rotary) return {};
  return round_up(element * (time * (model.head_dim / 2)), kDeviceBlock) * 2;
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
