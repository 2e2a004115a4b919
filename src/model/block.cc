#include "model/block.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/engine.h>

#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "model/norm.h"
#include "model/rotary.h"
#include "model/saved_tensors.h"

namespace ferry {
namespace {

/// A linear layer as its checkpoint stores it.
struct Projection {
  at::Tensor weight;
  std::optional<at::Tensor> bias;
  bool input_first = false;  // weight is [in, out], else [out, in]

  /// [rows, in] -> [rows, out]
  at::Tensor operator()(const at::Tensor& x) const {
    if (!input_first) return at::linear(x, weight, bias);
    return bias ? at::addmm(*bias, x, weight) : at::mm(x, weight);
  }
};

/// A block's weights, taken in the order of block.params.
class WeightReader {
 public:
  WeightReader(const ModelSpec& model, std::span<const at::Tensor> weights)
      : input_first_(model.input_first), weights_(weights) {}

  const at::Tensor& next() {
    FERRY_CHECK(taken_ < weights_.size(), "a block got fewer weights than its kind has");
    return weights_[taken_++];
  }
  Projection projection(bool bias) {
    Projection result{.weight = next(), .bias = std::nullopt, .input_first = input_first_};
    if (bias) result.bias = next();
    return result;
  }
  at::Tensor norm(const ModelSpec& model, const at::Tensor& x) {
    const at::Tensor& weight = next();
    if (model.norm == NormKind::layer) return layer_norm(x, weight, next(), model.norm_epsilon);
    return rms_norm(x, weight, model.norm_epsilon);
  }

 private:
  bool input_first_;
  std::span<const at::Tensor> weights_;
  std::size_t taken_ = 0;
};

at::Tensor activate(Activation activation, const at::Tensor& x) {
  switch (activation) {
    case Activation::gelu_tanh:
      return at::gelu(x, "tanh");
    case Activation::gelu:
      return at::gelu(x);
    case Activation::relu:
      return at::relu(x);
    case Activation::silu:
      return at::silu(x);
  }
  FERRY_UNREACHABLE("unknown activation");
}

/// Causal attention of q, k, v [rows, length, heads, head_dim], one call per document and never a
/// mask: masks cost O(length^2) memory and meet wrong kernels. Returns [rows, length, heads,
/// head_dim] of all documents in turn.
std::vector<at::Tensor> attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const Positions& positions) {
  const bool grouped = q.size(2) != k.size(2);
  const auto one = [grouped](const at::Tensor& a, const at::Tensor& b, const at::Tensor& c) {
    return at::scaled_dot_product_attention(a.transpose(1, 2), b.transpose(1, 2), c.transpose(1, 2),
                                            std::nullopt, 0.0,
                                            /*is_causal=*/true, std::nullopt, grouped)
        .transpose(1, 2);
  };
  if (positions.documents.empty()) return {one(q, k, v)};

  const std::vector<at::Tensor> qs = q.split_with_sizes(positions.documents, 1);
  const std::vector<at::Tensor> ks = k.split_with_sizes(positions.documents, 1);
  const std::vector<at::Tensor> vs = v.split_with_sizes(positions.documents, 1);
  std::vector<at::Tensor> parts;
  for (std::size_t i = 0; i < qs.size(); ++i) parts.push_back(one(qs[i], ks[i], vs[i]));
  return parts;
}

/// A residual block is x + output(join(project(norm(x)))): the products are in project and output.
struct ResidualWeights {
  std::span<const at::Tensor> norm;
  std::span<const at::Tensor> project;
  Projection output;

  std::size_t inner() const { return norm.size() + project.size(); }
};

ResidualWeights split_weights(const ModelSpec& model, const BlockSpec& block,
                              std::span<const at::Tensor> weights) {
  const bool bias = block.kind == BlockKind::attention ? model.output_bias : model.mlp_bias;
  const std::size_t norm = model.norm == NormKind::layer ? 2 : 1;
  const std::size_t inner = weights.size() - (bias ? 2 : 1);
  return {weights.first(norm), weights.subspan(norm, inner - norm),
          WeightReader(model, weights.subspan(inner)).projection(bias)};
}

/// normed is [batch, time, hidden].
std::vector<at::Tensor> project_attention(const ModelSpec& model, const at::Tensor& normed,
                                          std::span<const at::Tensor> weights,
                                          const Positions& positions) {
  WeightReader reader(model, weights);
  const std::int64_t dim = model.head_dim;
  // With documents the rows are laid end to end, so that they may cross a row's end.
  const std::int64_t rows = positions.documents.empty() ? normed.size(0) : 1;
  const auto by_head = [&](const at::Tensor& projected) {
    return projected.view({rows, -1, projected.size(1) / dim, dim});
  };

  const at::Tensor x = normed.view({-1, model.hidden});
  at::Tensor q, k, v;
  if (model.fused_qkv) {
    const std::int64_t queries = model.heads * dim, keys = model.kv_heads * dim;
    const std::vector<at::Tensor> parts =
        reader.projection(model.qkv_bias)(x).split_with_sizes({queries, keys, keys}, 1);
    q = by_head(parts[0]);
    k = by_head(parts[1]);
    v = by_head(parts[2]);
  } else {
    q = by_head(reader.projection(model.qkv_bias)(x));
    k = by_head(reader.projection(model.qkv_bias)(x));
    v = by_head(reader.projection(model.qkv_bias)(x));
  }
  if (model.qk_norm) {
    q = rms_norm(q, reader.next(), model.norm_epsilon);
    k = rms_norm(k, reader.next(), model.norm_epsilon);
  }
  if (model.positions == PositionKind::rotary) {
    const RotaryTable table = rotary_table(model, normed.size(1), positions, normed);
    q = rotate(q, table);
    k = rotate(k, table);
  }
  return attend(q, k, v, positions);
}

std::vector<at::Tensor> project_mlp(const ModelSpec& model, const at::Tensor& normed,
                                    std::span<const at::Tensor> weights) {
  WeightReader reader(model, weights);
  const at::Tensor x = normed.view({-1, model.hidden});
  std::vector<at::Tensor> parts{reader.projection(model.mlp_bias)(x)};
  if (model.gated_mlp) parts.push_back(reader.projection(model.mlp_bias)(x));
  return parts;
}

std::vector<at::Tensor> project(const ModelSpec& model, const BlockSpec& block,
                                const at::Tensor& normed, std::span<const at::Tensor> weights,
                                const Positions& positions) {
  return block.kind == BlockKind::attention ? project_attention(model, normed, weights, positions)
                                            : project_mlp(model, normed, weights);
}

/// [tokens, in of the output projection]. Takes the parts, so that what is used up is free.
at::Tensor join(const ModelSpec& model, const BlockSpec& block, std::vector<at::Tensor> parts) {
  if (block.kind == BlockKind::attention) {
    const at::Tensor all = parts.size() == 1 ? parts[0] : at::cat(parts, 1);
    return all.reshape({all.size(0) * all.size(1), -1});
  }
  const at::Tensor value = activate(model.activation, std::exchange(parts[0], {}));
  return parts.size() == 1 ? value : value * parts[1];
}

at::Tensor pre_norm(const ModelSpec& model, const at::Tensor& x,
                    std::span<const at::Tensor> weights) {
  return WeightReader(model, weights).norm(model, x);
}

at::Tensor run_residual(const ModelSpec& model, const BlockSpec& block, const at::Tensor& x,
                        std::span<const at::Tensor> weights, const Positions& positions) {
  const ResidualWeights split = split_weights(model, block, weights);
  const at::Tensor value =
      join(model, block,
           project(model, block, pre_norm(model, x, split.norm), split.project, positions));
  return x + split.output(value).view(x.sizes());
}

at::Tensor embed(const ModelSpec& model, const at::Tensor& ids, std::span<const at::Tensor> weights,
                 const Positions& positions) {
  const at::Tensor tokens = at::embedding(weights[0], ids);
  if (model.positions != PositionKind::learned) return tokens;
  if (positions.documents.empty()) return tokens + weights[1].narrow(0, 0, ids.size(1));
  return tokens +
         at::embedding(weights[1], document_positions(positions, ids.device()).view(ids.sizes()));
}

void check_call(const ModelSpec& model, const BlockSpec& block, const at::Tensor& x,
                std::span<const at::Tensor> weights, const Positions& positions) {
  const bool tied_head = block.kind == BlockKind::head && block.params.empty();
  FERRY_CHECK(weights.size() == (tied_head ? 1 : block.params.size()),
              to_string(block.kind) + " got " + std::to_string(weights.size()) + " weights");
  FERRY_CHECK(x.dim() == (block.kind == BlockKind::embedding ? 2 : 3), "x has the wrong shape");
  FERRY_CHECK(x.size(1) <= longest_sequence(model), "the sequence is longer than the model's");
  const std::int64_t packed =
      std::accumulate(positions.documents.begin(), positions.documents.end(), std::int64_t{0});
  FERRY_CHECK(positions.documents.empty() || packed == x.size(0) * x.size(1),
              "the documents' lengths must sum to the tokens");
}

/// Shares the tensor's memory but records a graph of its own.
at::Tensor leaf(const at::Tensor& tensor) { return tensor.detach().requires_grad_(); }

std::vector<at::Tensor> leaves(std::span<const at::Tensor> tensors) {
  std::vector<at::Tensor> result;
  for (const at::Tensor& tensor : tensors) result.push_back(leaf(tensor));
  return result;
}

std::vector<at::Tensor> gradients_of(const at::Tensor& y, const at::Tensor& x,
                                     std::span<const at::Tensor> weights, const at::Tensor& dy) {
  std::vector<at::Tensor> inputs{x};
  inputs.insert(inputs.end(), weights.begin(), weights.end());
  return torch::autograd::grad({y}, inputs, {dy});
}

BlockGradients norm_backward(const ModelSpec& model, const at::Tensor& x,
                             std::span<const at::Tensor> weights, const at::Tensor& dy) {
  const at::AutoGradMode record(true);
  const at::Tensor input = leaf(x);
  const std::vector<at::Tensor> copies = leaves(weights);
  const at::Tensor y = WeightReader(model, copies).norm(model, input);
  std::vector<at::Tensor> found = gradients_of(y, input, copies, dy);
  return {found[0], {found.begin() + 1, found.end()}};
}

/// The gradients of y = output(value) for value and for the projection's weight and bias, given dy
/// [rows, out].
struct ProjectionGradients {
  at::Tensor value;
  std::vector<at::Tensor> weights;
};

ProjectionGradients projection_gradients(const Projection& output, const at::Tensor& value,
                                         const at::Tensor& dy) {
  ProjectionGradients result;
  if (output.input_first) {
    result.value = at::mm(dy, output.weight.t());
    result.weights.push_back(at::mm(value.t(), dy));
  } else {
    result.value = at::mm(dy, output.weight);
    result.weights.push_back(at::mm(dy.t(), value));
  }
  if (output.bias) result.weights.push_back(dy.sum(0));
  return result;
}

/// The last projection's gradients need its input only, so it is not run again: the graph ends
/// before it. That saves one product in nine of a gated MLP's recomputation and backward.
BlockGradients residual_backward(const ModelSpec& model, const BlockSpec& block,
                                 const at::Tensor& x, std::span<const at::Tensor> weights,
                                 const at::Tensor& dy, const Positions& positions) {
  const ResidualWeights split = split_weights(model, block, weights);
  const at::Tensor input = leaf(x);
  const std::vector<at::Tensor> inner = leaves(weights.first(split.inner()));
  at::Tensor value;
  {
    const at::AutoGradMode record(true);
    const std::span<const at::Tensor> leaf_weights = inner;
    const at::Tensor normed = pre_norm(model, input, leaf_weights.first(split.norm.size()));
    value = join(model, block,
                 project(model, block, normed, leaf_weights.subspan(split.norm.size()), positions));
  }
  ProjectionGradients output =
      projection_gradients(split.output, value.detach(), dy.reshape({-1, model.hidden}));
  std::vector<at::Tensor> found = gradients_of(value, input, inner, output.value);

  BlockGradients result{.x = found[0].add_(dy), .weights = {found.begin() + 1, found.end()}};
  result.weights.insert(result.weights.end(), output.weights.begin(), output.weights.end());
  return result;
}

/// What project() reads, in the order in which SavedTensors is given it.
std::vector<at::Tensor> project_inputs(const at::Tensor& normed,
                                       std::span<const at::Tensor> weights) {
  std::vector<at::Tensor> inputs{normed};
  inputs.insert(inputs.end(), weights.begin(), weights.end());
  return inputs;
}

BlockGradients embedding_backward(const ModelSpec& model, const at::Tensor& ids,
                                  std::span<const at::Tensor> weights, const at::Tensor& dy,
                                  const Positions& positions) {
  std::vector<at::Tensor> sums;
  for (const at::Tensor& weight : weights) {
    sums.push_back(at::zeros(weight.sizes(), weight.options().dtype(at::kFloat)));
  }
  add_embedding_gradient(model, ids, dy, sums, positions);
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = sums[i].to(weights[i].scalar_type());
  return {.x = at::Tensor(), .weights = std::move(sums)};
}

}  // namespace

struct SavedForward {
  std::shared_ptr<SavedTensors> tensors;
  std::vector<SavedTensors::Kept> parts;  // what project() returned
  torch::autograd::edge_list outputs;     // of project(), where its backward begins
  torch::autograd::edge_list inputs;      // likewise, where it ends
};

at::Tensor forward(const ModelSpec& model, const BlockSpec& block, const at::Tensor& x,
                   std::span<const at::Tensor> weights, const Positions& positions) {
  check_call(model, block, x, weights, positions);
  const at::NoGradGuard no_graph;
  switch (block.kind) {
    case BlockKind::embedding:
      return embed(model, x, weights, positions);
    case BlockKind::attention:
    case BlockKind::mlp:
      return run_residual(model, block, x, weights, positions);
    case BlockKind::norm:
      return WeightReader(model, weights).norm(model, x);
    case BlockKind::head:
      return at::linear(x, weights[0]);
  }
  FERRY_UNREACHABLE("unknown kind of block");
}

BlockGradients backward(const ModelSpec& model, const BlockSpec& block, const at::Tensor& x,
                        std::span<const at::Tensor> weights, const at::Tensor& dy,
                        const Positions& positions) {
  check_call(model, block, x, weights, positions);
  const at::NoGradGuard no_graph;
  switch (block.kind) {
    case BlockKind::embedding:
      return embedding_backward(model, x, weights, dy, positions);
    case BlockKind::attention:
    case BlockKind::mlp:
      return residual_backward(model, block, x, weights, dy, positions);
    case BlockKind::norm:
      return norm_backward(model, x, weights, dy);
    case BlockKind::head:
      break;
  }
  FERRY_UNREACHABLE("the head's gradients come from head_forward_backward()");
}

bool can_save(const BlockSpec& block) {
  return block.kind == BlockKind::attention || block.kind == BlockKind::mlp;
}

SavingResult forward_saving(const ModelSpec& model, const BlockSpec& block, const at::Tensor& x,
                            std::span<const at::Tensor> weights, const at::Tensor& slot,
                            const Positions& positions) {
  check_call(model, block, x, weights, positions);
  FERRY_CHECK(can_save(block), to_string(block.kind) + " has nothing to save");
  const at::NoGradGuard no_graph;
  const ResidualWeights split = split_weights(model, block, weights);
  std::vector<at::Tensor> inputs =
      leaves(project_inputs(pre_norm(model, x, split.norm), split.project));
  auto saved = std::make_shared<SavedForward>();
  saved->tensors = std::make_shared<SavedTensors>(slot, inputs);

  std::vector<at::Tensor> parts;
  {
    const SavingInto saving(saved->tensors);
    const at::AutoGradMode record(true);
    parts = project(model, block, inputs[0], std::span(inputs).subspan(1), positions);
  }
  for (at::Tensor& part : parts) {
    saved->outputs.push_back(torch::autograd::impl::gradient_edge(part));
    part = part.detach();
    saved->parts.push_back(saved->tensors->keep(part));
  }
  saved->tensors->seal();
  for (at::Tensor& input : inputs) {
    saved->inputs.push_back(torch::autograd::impl::gradient_edge(input));
    input.set_data(at::empty({0}, input.options()));  // the graph holds its leaves
  }

  const at::Tensor value = join(model, block, std::move(parts));
  const Bytes size = saved->tensors->size();
  return {.y = x + split.output(value).view(x.sizes()), .bytes = size, .saved = std::move(saved)};
}

BlockGradients backward_saved(const ModelSpec& model, const BlockSpec& block, const at::Tensor& x,
                              std::span<const at::Tensor> weights, const at::Tensor& dy,
                              const at::Tensor& slot, const SavedForward& saved) {
  const at::NoGradGuard no_graph;
  const ResidualWeights split = split_weights(model, block, weights);
  const at::Tensor input = leaf(x);
  const std::vector<at::Tensor> norms = leaves(split.norm);
  at::Tensor normed;
  {
    const at::AutoGradMode record(true);
    normed = pre_norm(model, input, norms);
  }
  saved.tensors->bind(slot, project_inputs(normed.detach(), split.project));

  std::vector<at::Tensor> parts;
  for (const SavedTensors::Kept& kept : saved.parts) {
    parts.push_back(leaf(saved.tensors->restore(kept)));
  }
  at::Tensor value;
  {
    const at::AutoGradMode record(true);
    value = join(model, block, parts);
  }
  ProjectionGradients output =
      projection_gradients(split.output, value.detach(), dy.reshape({-1, model.hidden}));
  std::vector<at::Tensor> found =
      torch::autograd::grad({std::exchange(value, {})}, parts, {std::exchange(output.value, {})});
  parts.clear();
  found = torch::autograd::Engine::get_default_engine().execute(
      saved.outputs, found, /*keep_graph=*/true, /*create_graph=*/false,
      /*accumulate_grad=*/false, saved.inputs);
  saved.tensors->seal();
  const std::vector<at::Tensor> norm_gradients =
      gradients_of(normed, input, norms, std::exchange(found.front(), {}));

  BlockGradients result{.x = norm_gradients[0], .weights = {}};
  result.x.add_(dy);
  const auto append = [&](auto begin, auto end) {
    result.weights.insert(result.weights.end(), begin, end);
  };
  append(norm_gradients.begin() + 1, norm_gradients.end());
  append(found.begin() + 1, found.end());
  append(output.weights.begin(), output.weights.end());
  return result;
}

void add_embedding_gradient(const ModelSpec& model, const at::Tensor& ids, const at::Tensor& dy,
                            std::span<const at::Tensor> sums, const Positions& positions) {
  const bool learned = model.positions == PositionKind::learned;
  FERRY_CHECK(sums.size() == (learned ? 2 : 1), "one sum per weight");
  const at::NoGradGuard no_graph;
  const at::Tensor rows = dy.reshape({-1, model.hidden}).to(at::kFloat);
  at::Tensor(sums[0]).index_add_(0, ids.reshape({-1}), rows);
  if (!learned) return;
  if (positions.documents.empty()) {
    sums[1].narrow(0, 0, ids.size(1)).add_(rows.view(dy.sizes()).sum(0));
  } else {
    at::Tensor(sums[1]).index_add_(0, document_positions(positions, ids.device()), rows);
  }
}

}  // namespace ferry
