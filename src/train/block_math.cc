#include "train/block_math.h"

#include <ATen/ATen.h>
#include <c10/core/AutogradState.h>
#include <torch/csrc/autograd/autograd.h>

#include "base/check.h"
#include "model/block.h"
#include "model/embedding.h"
#include "model/fused.h"
#include "model/head.h"
#include "model/saved_tensors.h"
#include "train/device_update.h"
#include "train/state_pieces.h"
#include "train/step_kernels.h"

namespace ferry {

namespace {

/// Keeps autograd on the calling thread. Its device threads would hold tensors a moment longer than
/// the call that made them, so peaks would depend on timing; and they queue all of a device's work.
class OnThisThread {
 public:
  OnThisThread() : before_(state().get_multithreading_enabled()) {
    state().set_multithreading_enabled(false);
  }
  ~OnThisThread() { state().set_multithreading_enabled(before_); }
  OnThisThread(const OnThisThread&) = delete;
  OnThisThread& operator=(const OnThisThread&) = delete;

 private:
  static c10::AutogradState& state() { return c10::AutogradState::get_tls_state(); }

  const bool before_;
};

/// The chunk's tokens of [batch, time, ...]: all of it, or [rows, 1, hidden].
at::Tensor rows_of(const at::Tensor& states, RowChunk chunk) {
  if (chunk.rows == states.size(0) * states.size(1)) return states;
  return states.view({-1, 1, states.size(2)}).narrow(0, chunk.first, chunk.rows);
}

}  // namespace

std::vector<at::Tensor> weight_views(const ModelSpec& model, const Plan& plan,
                                     const Binding& binding, BlockId block_id, InstanceId weight) {
  const BlockSpec& block = model.blocks[block_id];
  const BlockLayout layout = layout_of(block);
  const std::int64_t element = weight_element_bytes(plan.precision);
  const auto type = plan.precision == Precision::bf16 ? at::kBFloat16 : at::kFloat;
  std::vector<at::Tensor> views;
  for (std::size_t i = 0; i < block.params.size(); ++i) {
    views.push_back(
        binding.view(weight, Bytes{layout.offsets[i] * element}, block.params[i].shape, type));
  }
  return views;
}

BlockMath::BlockMath(const ModelSpec& model, const Plan& plan, const Binding& binding)
    : model_(model),
      plan_(plan),
      binding_(binding),
      operands_(operands_of(plan)),
      type_(plan.precision == Precision::bf16 ? at::kBFloat16 : at::kFloat),
      weights_(plan.instances.size()) {
  FERRY_CHECK(plan.blocks.size() == model.blocks.size(), "the plan was made for another model");
  for (const BlockSpec& block : model.blocks) layouts_.push_back(layout_of(block));
  for (const PlaceId id : plan.places.ids()) rotary_.push_back(binding.rotary(model, id));
  for (const InstanceId id : plan.instances.ids()) {
    const Value& value = plan.values[plan.instances[id].value];
    const bool on_device = !binding.on_host(id) && !binding.on_drive(id);
    if (value.kind != ValueKind::weight || !on_device) continue;
    weights_[id] = weight_views(model, plan, binding, value.block, id);
  }
  for (const TaskId id : plan.tasks.ids()) {
    const Task& task = plan.tasks[id];
    if (task.kind != TaskKind::forward || !operands_[id][Part::saved].valid()) continue;
    kept_[{task.block, task.micro_batch}] = {};
  }
}

void BlockMath::enqueue(TaskId id, const StepNumbers& numbers) {
  const Task& task = plan_.tasks[id];
  const Operands& parts = operands_[id];
  const OnThisThread autograd;
  const at::NoGradGuard no_grad;  // blocks switch it on for their own recompute
  const InstanceId weight = parts[Part::weight];
  const UseFused fused(weight.valid() ? binding_.kernels(weight) : nullptr);
  switch (task.kind) {
    case TaskKind::forward:
      return forward(task, parts, numbers);
    case TaskKind::backward:
      return backward(task, parts, numbers);
    case TaskKind::update:
      return update(task, parts, numbers);
    case TaskKind::load:
    case TaskKind::copy:
    case TaskKind::clip:
    case TaskKind::redo:
    case TaskKind::work:
      FERRY_UNREACHABLE(task.name + " is no compute task");
  }
}

void BlockMath::forward(const Task& task, const Operands& parts, const StepNumbers& numbers) {
  if (block(task).kind == BlockKind::head) {
    binding_.view(parts[Part::loss], {}, {}, at::kFloat)
        .copy_(head_loss(head_input(task, parts, numbers)));
    return;
  }
  if (parts[Part::saved].valid()) {
    kept_.at({task.block, task.micro_batch}) =
        keeping_forward(task, parts, numbers, binding_.bytes(parts[Part::saved])).chunks;
    return;
  }
  const auto& weights = weights_[parts[Part::weight]];
  const bool first = block(task).kind == BlockKind::embedding;
  const at::Tensor x = first ? ids(parts[Part::tokens]) : hidden_states(parts[Part::input]);
  const at::Tensor y = hidden_states(parts[Part::output]);
  const Positions where = positions(task, numbers);
  for (const RowChunk chunk : chunks(task)) {
    ferry::forward(model_, block(task), rows_of(x, chunk), weights, where, rows_of(y, chunk));
  }
}

BlockMath::KeptForward BlockMath::keeping_forward(const Task& task, const Operands& parts,
                                                  const StepNumbers& numbers,
                                                  const at::Tensor& slot) const {
  const auto& weights = weights_[parts[Part::weight]];
  const at::Tensor x = hidden_states(parts[Part::input]);
  const at::Tensor y = hidden_states(parts[Part::output]);
  const Positions where = positions(task, numbers);
  KeptForward kept;
  for (const RowChunk chunk : chunks(task)) {
    const Bytes begin = round_up(kept.bytes, SavedTensors::kAlignment);
    SavingResult result = forward_saving(model_, block(task), rows_of(x, chunk), weights,
                                         slot.defined() ? slot.slice(0, begin.count) : slot, where,
                                         rows_of(y, chunk));
    kept.chunks.push_back({begin, std::move(result.saved)});
    kept.bytes = begin + result.bytes;
  }
  return kept;
}

Bytes BlockMath::saved_bytes(TaskId id, const StepNumbers& numbers) const {
  return keeping_forward(plan_.tasks[id], operands_[id], numbers, at::Tensor()).bytes;
}

void BlockMath::backward(const Task& task, const Operands& parts,
                         const StepNumbers& numbers) const {
  GradientSums sums = gradient_sums(task, parts);
  switch (block(task).kind) {
    case BlockKind::head:
      head_backward(task, parts, numbers, sums);
      break;
    case BlockKind::embedding:
      embedding_backward(task, parts, numbers, sums);
      break;
    case BlockKind::attention:
    case BlockKind::mlp:
    case BlockKind::norm:
      block_backward(task, parts, numbers, sums);
      break;
  }
  if (parts[Part::norm].valid()) finish_gradient(task, parts, sums);
}

void BlockMath::block_backward(const Task& task, const Operands& parts, const StepNumbers& numbers,
                               GradientSums& sums) const {
  const auto& weights = weights_[parts[Part::weight]];
  const at::Tensor x = hidden_states(parts[Part::input]);
  const at::Tensor dy = hidden_states(parts[Part::output_gradient]);
  const at::Tensor dx = hidden_states(parts[Part::input_gradient]);
  const bool keeps = parts[Part::saved].valid();
  const std::vector<RowChunk> all = chunks(task);
  const auto kept = kept_.find({task.block, task.micro_batch});
  FERRY_CHECK(!keeps || (kept != kept_.end() && kept->second.size() == all.size()),
              task.name + " came before its forward");

  for (std::size_t i = 0; i < all.size(); ++i) {
    const at::Tensor x_rows = rows_of(x, all[i]), dy_rows = rows_of(dy, all[i]);
    const at::Tensor dx_rows = rows_of(dx, all[i]);
    BlockGradients found;
    if (keeps) {
      const KeptChunk& chunk = kept->second[i];
      found = backward_saved(model_, block(task), x_rows, weights, dy_rows,
                             binding_.bytes(parts[Part::saved]).slice(0, chunk.begin.count),
                             *chunk.saved, dx_rows);
    } else {
      found = ferry::backward(model_, block(task), x_rows, weights, dy_rows,
                              positions(task, numbers), dx_rows);
    }
    const bool last = i + 1 == all.size() && parts[Part::norm].valid();
    sums.add(found.weights, parts.accumulates || i > 0, last);
  }
}

void BlockMath::embedding_backward(const Task& task, const Operands& parts,
                                   const StepNumbers& numbers, GradientSums& sums) const {
  if (!parts.accumulates) sums.zero();
  add_embedding_gradient(model_, ids(parts[Part::tokens]),
                         hidden_states(parts[Part::output_gradient]), sums.tensors(),
                         positions(task, numbers));
}

void BlockMath::head_backward(const Task& task, const Operands& parts, const StepNumbers& numbers,
                              GradientSums& sums) const {
  const HeadResult result = head_forward_backward(head_input(task, parts, numbers),
                                                  sums.tensors().front(), parts.accumulates);
  binding_.view(parts[Part::loss], {}, {}, at::kFloat).copy_(result.loss);
  hidden_states(parts[Part::input_gradient]).copy_(result.dx);
}

void BlockMath::finish_gradient(const Task& task, const Operands& parts, GradientSums& sums) const {
  if (parts[Part::tied_gradient].valid()) {
    sums.add_to_first(
        binding_.view(parts[Part::tied_gradient], {}, sums.tensors().front().sizes(), at::kFloat));
  }
  sums.squared_norm(binding_.view(parts[Part::norm], {}, {}, at::kDouble));
  if (!parts[Part::rounded].valid()) return;
  const auto rounded = gradients(task, parts[Part::rounded], at::kBFloat16);
  for (std::size_t i = 0; i < rounded.size(); ++i) {
    rounded[i].copy_(sums.tensors()[i]);  // to nearest even
  }
}

void BlockMath::update(const Task& task, const Operands& parts, const StepNumbers& numbers) const {
  const BlockSpec& spec = block(task);
  const BlockLayout& layout = layouts_[task.block];
  const bool split = plan_.precision == Precision::bf16;
  const MomentOffsets moments = moment_offsets(layout.elements, plan_.precision);
  const InstanceId rounded = parts[Part::rounded];
  const InstanceId clip = parts[Part::clip];
  const at::Tensor scale = clip.valid() ? binding_.view(clip, {}, {}, at::kFloat) : at::Tensor();
  const bool decays = numbers.adamw.weight_decay != 0;
  for (std::size_t first = 0, next = 0; first < spec.params.size(); first = next) {
    // Neighbours that decay alike go together, with the padding between them, which nobody reads.
    for (next = first + 1; next < spec.params.size(); ++next) {
      if (decays && spec.params[next].decays() != spec.params[first].decays()) break;
    }
    const std::int64_t begin = layout.offsets[first];
    const std::int64_t end = layout.offsets[next - 1] + spec.params[next - 1].numel();
    const auto flat = [&](InstanceId id, Bytes part, at::ScalarType type) {
      const auto element = static_cast<std::int64_t>(c10::elementSize(type));
      return binding_.view(id, part + Bytes{begin * element}, {end - begin}, type);
    };
    device_adamw_step(adamw_factors(numbers.adamw, 1.0F, spec.params[first].decays()),
                      {.weight = flat(parts[Part::weight], {}, type_),
                       .lo = split ? flat(parts[Part::state], {}, at::kShort) : at::Tensor(),
                       .m = flat(parts[Part::state], moments.exp_avg, at::kFloat),
                       .v = flat(parts[Part::state], moments.exp_avg_sq, at::kFloat),
                       .gradient = rounded.valid() ? flat(rounded, {}, at::kBFloat16)
                                                   : flat(parts[Part::gradient], {}, at::kFloat),
                       .rounds = plan_.gradients == Precision::bf16},
                      scale, binding_.kernels(parts[Part::weight]));
  }
}

std::vector<RowChunk> BlockMath::chunks(const Task& task) const {
  const BatchShape shape{plan_.micro_batch_size, plan_.sequence};
  const bool mlp = block(task).kind == BlockKind::mlp;
  return row_chunks(shape.tokens(), mlp ? mlp_chunk_rows(model_, shape) : shape.tokens());
}

/// None for an MLP, which asks for none.
Positions BlockMath::positions(const Task& task, const StepNumbers& numbers) const {
  if (block(task).kind == BlockKind::mlp) return {};
  const Batch& batch = numbers.batches[task.micro_batch];
  Positions found;
  found.rotary = rotary_[plan_.resources[task.resource].place];
  // Rows of one document each are attended to in one call.
  if (batch.documents.size() != static_cast<std::size_t>(plan_.micro_batch_size)) {
    found.documents = batch.documents;
  }
  return found;
}

const BlockSpec& BlockMath::block(const Task& task) const { return model_.blocks[task.block]; }

at::Tensor BlockMath::ids(InstanceId tokens) const {
  return binding_.view(tokens, {}, {plan_.micro_batch_size, plan_.sequence}, at::kLong);
}

at::Tensor BlockMath::labels(InstanceId tokens) const {
  return binding_.view(tokens, Bytes{8} * plan_.micro_batch_size * plan_.sequence,
                       {plan_.micro_batch_size, plan_.sequence}, at::kLong);
}

at::Tensor BlockMath::hidden_states(InstanceId activation) const {
  return binding_.view(activation, {}, {plan_.micro_batch_size, plan_.sequence, model_.hidden},
                       type_);
}

HeadInput BlockMath::head_input(const Task& task, const Operands& parts,
                                const StepNumbers& numbers) const {
  const bool tied = plan_.blocks[task.block].reads_weight.valid();
  const InstanceId weight = tied ? parts[Part::tied_weight] : parts[Part::weight];
  return {.x = hidden_states(parts[Part::input]),
          .weight = weights_[weight].front(),
          .labels = labels(parts[Part::tokens]),
          .scale = numbers.loss_scale,
          .chunk_rows = head_chunk_rows(model_, {plan_.micro_batch_size, plan_.sequence})};
}

GradientSums BlockMath::gradient_sums(const Task& task, const Operands& parts) const {
  const InstanceId gradient = parts[Part::gradient];
  return {gradients(task, gradient), binding_.kernels(gradient)};
}

std::vector<at::Tensor> BlockMath::gradients(const Task& task, InstanceId gradient,
                                             at::ScalarType type) const {
  const BlockId tied = plan_.blocks[task.block].reads_weight;
  const BlockId owner = tied.valid() ? tied : task.block;
  const auto& params = model_.blocks[owner].params;
  const std::size_t count = tied.valid() ? 1 : params.size();
  const BlockLayout& layout = layouts_[owner];
  const auto element = static_cast<std::int64_t>(c10::elementSize(type));
  std::vector<at::Tensor> sums;
  for (std::size_t i = 0; i < count; ++i) {
    sums.push_back(
        binding_.view(gradient, Bytes{layout.offsets[i] * element}, params[i].shape, type));
  }
  return sums;
}

}  // namespace ferry
