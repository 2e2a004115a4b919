// Networks as blocks: stateless functions of (weights, inputs). Nothing here waits for the device:
// no value is read back, no shape depends on data, so every call only enqueues work.
//
// A token of an MLP or a norm knows nothing of the others: who calls with some of a micro-batch's
// tokens at a time, as [rows, 1, hidden], has their part of the output and of the gradients.
//
// All calls are deterministic for a fixed number of threads per kernel; on CUDA the embedding's
// gradient is so only under torch's deterministic algorithms. Any thread may call, on any stream.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <span>
#include <vector>

#include "base/units.h"
#include "model/positions.h"
#include "spec/model_spec.h"

namespace ferry {

struct BlockGradients {
  at::Tensor x;                     // like the block's input; undefined for the embedding
  std::vector<at::Tensor> weights;  // in the order, type and shape of the weights, contiguous
};

/// Runs one block, without recording a graph. x is [batch, time] int64 token ids for the embedding,
/// else [batch, time, hidden] in the weights' type. `weights` are those of block.params, in order;
/// for a tied head, the embedding's. Returns [batch, time, hidden], or the head's logits
/// [batch, time, vocab]; where `into` is defined they are written there.
/// Requires: time <= longest_sequence(model).
at::Tensor forward(const ModelSpec& model, const BlockSpec& block, const at::Tensor& x,
                   std::span<const at::Tensor> weights, const Positions& positions = {},
                   const at::Tensor& into = {});

/// Runs the block again and takes its gradients, given dy, the gradient of its output. No graph
/// outlives the call. Gradients have the weights' type; the caller sums them. That of x is written
/// to `into` where that is defined.
/// Requires: block is not the head (model/head.h).
BlockGradients backward(const ModelSpec& model, const BlockSpec& block, const at::Tensor& x,
                        std::span<const at::Tensor> weights, const at::Tensor& dy,
                        const Positions& positions = {}, const at::Tensor& into = {});

/// Whether forward_saving() knows the block: attention and MLPs.
bool can_save(const BlockSpec& block);

/// What a forward left of its graph: which tensors lie where in its slot. Holds none of them.
struct SavedForward;

struct SavingResult {
  at::Tensor y;  // as forward() gives it
  Bytes bytes;   // what the slot holds
  std::shared_ptr<SavedForward> saved;
};

/// forward() that also keeps in `slot`, bytes on the block's device, what the products of
/// backward() would be run again for: q, k, v and attention's result, or the MLP's projections. The
/// norm and the activation are not kept, being cheap. An undefined slot only counts the bytes. How
/// many they are depends on the documents; no division into documents needs more than the larger of
/// none and one document per token. Requires: can_save(block). Throws ResourceError when the slot
/// is too small.
SavingResult forward_saving(const ModelSpec& model, const BlockSpec& block, const at::Tensor& x,
                            std::span<const at::Tensor> weights, const at::Tensor& slot,
                            const Positions& positions = {}, const at::Tensor& into = {});

/// backward() of a forward_saving() whose slot's bytes are now in `slot`, with the same x and
/// weights, all perhaps at other addresses of the same device. Equal to backward() bit for bit.
/// Requires: the stream of that forward_saving() is current.
BlockGradients backward_saved(const ModelSpec& model, const BlockSpec& block, const at::Tensor& x,
                              std::span<const at::Tensor> weights, const at::Tensor& dy,
                              const at::Tensor& slot, const SavedForward& saved,
                              const at::Tensor& into = {});

}  // namespace ferry
