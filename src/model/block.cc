#include "model/block.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include "base/check.h"
#include "model/attention.h"
#include "model/embedding.h"
#include "model/mlp.h"
#include "model/saved_tensors.h"
#include "model/weights.h"

namespace ferry {
namespace {

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
  const std::size_t norm = norm_weights(model);
  const std::size_t inner = weights.size() - (bias ? 2 : 1);
  return {weights.first(norm), weights.subspan(norm, inner - norm),
          WeightReader(model, weights.subspan(inner)).projection(bias)};
}

std::vector<at::Tensor> project(const ModelSpec& model, const BlockSpec& block,
                                const at::Tensor& normed, std::span<const at::Tensor> weights,
                                const Positions& positions) {
  return block.kind == BlockKind::attention ? project_attention(model, normed, weights, positions)
                                            : project_mlp(model, normed, weights);
}

/// [tokens, in of the output projection]. Takes the parts, so that what is used up is free.
at::Tensor join(const ModelSpec& model, const BlockSpec& block, std::vector<at::Tensor> parts) {
  return block.kind == BlockKind::attention ? join_attention(parts)
                                            : join_mlp(model, std::move(parts));
}

at::Tensor norm_of(const ModelSpec& model, const at::Tensor& x,
                   std::span<const at::Tensor> weights) {
  return WeightReader(model, weights).norm(x);
}

/// a + b, in `into` where that is defined.
at::Tensor sum_into(at::Tensor into, const at::Tensor& a, const at::Tensor& b) {
  return into.defined() ? at::add_out(into, a, b) : a + b;
}

at::Tensor copied_into(const at::Tensor& into, const at::Tensor& x) {
  return into.defined() ? into.copy_(x) : x;
}

at::Tensor run_residual(const ModelSpec& model, const BlockSpec& block, const at::Tensor& x,
                        std::span<const at::Tensor> weights, const Positions& positions,
                        const at::Tensor& into) {
  const ResidualWeights split = split_weights(model, block, weights);
  const at::Tensor value = join(
      model, block, project(model, block, norm_of(model, x, split.norm), split.project, positions));
  return sum_into(into, x, split.output(value).view(x.sizes()));
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
                             std::span<const at::Tensor> weights, const at::Tensor& dy,
                             const at::Tensor& into) {
  const at::AutoGradMode record(true);
  const at::Tensor input = leaf(x);
  const std::vector<at::Tensor> copies = leaves(weights);
  const at::Tensor y = norm_of(model, input, copies);
  std::vector<at::Tensor> found = gradients_of(y, input, copies, dy);
  return {copied_into(into, found[0]), {found.begin() + 1, found.end()}};
}

/// The last projection's gradients need its input only, so it is not run again: the graph ends
/// before it. That saves one product in nine of a gated MLP's recomputation and backward.
BlockGradients residual_backward(const ModelSpec& model, const BlockSpec& block,
                                 const at::Tensor& x, std::span<const at::Tensor> weights,
                                 const at::Tensor& dy, const Positions& positions,
                                 const at::Tensor& into) {
  const ResidualWeights split = split_weights(model, block, weights);
  const at::Tensor input = leaf(x);
  const std::vector<at::Tensor> inner = leaves(weights.first(split.inner()));
  at::Tensor value;
  {
    const at::AutoGradMode record(true);
    const std::span<const at::Tensor> leaf_weights = inner;
    const at::Tensor normed = norm_of(model, input, leaf_weights.first(split.norm.size()));
    value = join(model, block,
                 project(model, block, normed, leaf_weights.subspan(split.norm.size()), positions));
  }
  ProjectionGradients output =
      projection_gradients(split.output, value.detach(), dy.reshape({-1, model.hidden}));
  std::vector<at::Tensor> found = gradients_of(value, input, inner, output.x);

  BlockGradients result{.x = sum_into(into, found[0], dy),
                        .weights = {found.begin() + 1, found.end()}};
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

}  // namespace

struct SavedForward {
  std::shared_ptr<SavedTensors> tensors;
  std::vector<SavedTensors::Kept> parts;  // what project() returned
  torch::autograd::edge_list outputs;     // of project(), where its backward begins
  torch::autograd::edge_list inputs;      // likewise, where it ends
};

namespace {

/// Autograd runs a graph on the stream that made it, whichever is current, and joins the two by
/// events: right, but slow. True on a CPU, which has none.
bool is_of_current_stream(const SavedForward& saved, c10::Device device) {
  const auto is_of_it = [&](const torch::autograd::Edge& edge) {
    const auto made_on = edge.function->stream();
    return !made_on || *made_on == c10::impl::VirtualGuardImpl(device.type()).getStream(device);
  };
  return std::ranges::all_of(saved.outputs, is_of_it);
}

}  // namespace

at::Tensor forward(const ModelSpec& model, const BlockSpec& block, const at::Tensor& x,
                   std::span<const at::Tensor> weights, const Positions& positions,
                   const at::Tensor& into) {
  check_call(model, block, x, weights, positions);
  const at::NoGradGuard no_graph;
  switch (block.kind) {
    case BlockKind::embedding:
      return copied_into(into, embed(model, x, weights, positions));
    case BlockKind::attention:
    case BlockKind::mlp:
      return run_residual(model, block, x, weights, positions, into);
    case BlockKind::norm:
      return copied_into(into, norm_of(model, x, weights));
    case BlockKind::head:
      return copied_into(into, at::linear(x, weights[0]));
  }
  FERRY_UNREACHABLE("unknown kind of block");
}

BlockGradients backward(const ModelSpec& model, const BlockSpec& block, const at::Tensor& x,
                        std::span<const at::Tensor> weights, const at::Tensor& dy,
                        const Positions& positions, const at::Tensor& into) {
  check_call(model, block, x, weights, positions);
  const at::NoGradGuard no_graph;
  switch (block.kind) {
    case BlockKind::embedding:
      return {.x = at::Tensor(), .weights = embedding_gradients(model, x, weights, dy, positions)};
    case BlockKind::attention:
    case BlockKind::mlp:
      return residual_backward(model, block, x, weights, dy, positions, into);
    case BlockKind::norm:
      return norm_backward(model, x, weights, dy, into);
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
                            const Positions& positions, const at::Tensor& into) {
  check_call(model, block, x, weights, positions);
  FERRY_CHECK(can_save(block), to_string(block.kind) + " has nothing to save");
  const at::NoGradGuard no_graph;
  const ResidualWeights split = split_weights(model, block, weights);
  std::vector<at::Tensor> inputs =
      leaves(project_inputs(norm_of(model, x, split.norm), split.project));
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
  return {.y = sum_into(into, x, split.output(value).view(x.sizes())),
          .bytes = size,
          .saved = std::move(saved)};
}

BlockGradients backward_saved(const ModelSpec& model, const BlockSpec& block, const at::Tensor& x,
                              std::span<const at::Tensor> weights, const at::Tensor& dy,
                              const at::Tensor& slot, const SavedForward& saved,
                              const at::Tensor& into) {
  FERRY_CHECK(is_of_current_stream(saved, x.device()), "a graph of another stream's forward");
  const at::NoGradGuard no_graph;
  const ResidualWeights split = split_weights(model, block, weights);
  const at::Tensor input = leaf(x);
  const std::vector<at::Tensor> norms = leaves(split.norm);
  at::Tensor normed;
  {
    const at::AutoGradMode record(true);
    normed = norm_of(model, input, norms);
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
      torch::autograd::grad({std::exchange(value, {})}, parts, {std::exchange(output.x, {})});
  parts.clear();
  found = torch::autograd::Engine::get_default_engine().execute(
      saved.outputs, found, /*keep_graph=*/true, /*create_graph=*/false,
      /*accumulate_grad=*/false, saved.inputs);
  saved.tensors->seal();
  const std::vector<at::Tensor> norm_gradients =
      gradients_of(normed, input, norms, std::exchange(found.front(), {}));

  BlockGradients result{.x = sum_into(into, norm_gradients[0], dy), .weights = {}};
  const auto append = [&](auto begin, auto end) {
    result.weights.insert(result.weights.end(), begin, end);
  };
  append(norm_gradients.begin() + 1, norm_gradients.end());
  append(found.begin() + 1, found.end());
  append(output.weights.begin(), output.weights.end());
  return result;
}

}  // namespace ferry
