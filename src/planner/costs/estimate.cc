#include "planner/costs/estimate.h"

#include <algorithm>
#include <limits>

#include "base/device_block.h"
#include "planner/costs/chain.h"
#include "planner/costs/queues.h"
#include "spec/layout.h"
#include "spec/row_chunks.h"

namespace ferry {
namespace {

// Where the machine file is silent. One core of a recent x86 server sustains about 20 GFLOP/s in
// torch's matrix products; a small discrete GPU 10 TFLOP/s in fp32 and 40 in bf16.
constexpr double kCoreFlops = 20e9;
constexpr double kGpuFlopsFp32 = 10e12;
constexpr double kGpuFlopsBf16 = 40e12;
constexpr double kHostBandwidth = 10e9;  // per core that works on it
constexpr double kGpuBandwidth = 400e9;
constexpr Micros kSimTask{100};  // of an operator sequence on the CPU
constexpr Micros kGpuTask{20};

double flops_of(const MachineDevice& device, Precision precision) {
  const double given = precision == Precision::bf16 ? device.flops_bf16 : device.flops_fp32;
  if (given > 0) return given;
  if (device.kind == DeviceKind::sim) return kCoreFlops * std::max(1, device.threads);
  return precision == Precision::bf16 ? kGpuFlopsBf16 : kGpuFlopsFp32;
}

double bandwidth_of(const MachineDevice& device) {
  if (device.memory_bandwidth.limited()) return device.memory_bandwidth.bytes_per_second;
  return device.kind == DeviceKind::sim ? kHostBandwidth : kGpuBandwidth;
}

struct Roofline {
  double flops = std::numeric_limits<double>::infinity();
  double bandwidth = std::numeric_limits<double>::infinity();

  Micros time(double work, Bytes moved) const {
    return from_seconds(std::max(work / flops, static_cast<double>(moved.count) / bandwidth));
  }
};

// The kernels' own memory, from above, in elements of one token's row: pre-norm and its fp32
// copies, projections, rotary copies, attention's output and softmax statistics.
std::int64_t inner_row(const ModelSpec& model, BlockKind kind) {
  const std::int64_t heads = (model.heads + 2 * model.kv_heads) * model.head_dim;
  switch (kind) {
    case BlockKind::embedding:
      return 2 * model.hidden;
    case BlockKind::attention:
      return 6 * model.hidden + 4 * heads + 2 * model.heads * model.head_dim;
    case BlockKind::mlp:
      return 6 * model.hidden + 4 * model.intermediate;
    case BlockKind::norm:
    case BlockKind::head:
      return 6 * model.hidden;
  }
  return 6 * model.hidden;
}

// What model/block.h's forward_saving() keeps, whatever the documents: the projections, rotated,
// and attention's result with one fp32 statistic per head. Stores begin at multiples of 64 bytes,
// and attention's are one per document: at worst one per token. Some GPUs' kernels pad the
// statistics.
Bytes saved_bytes(const ModelSpec& model, BlockKind kind, BatchShape shape, std::int64_t element) {
  const auto padded = [](std::int64_t bytes) { return round_up(Bytes{bytes}, 64_B); };
  if (kind == BlockKind::mlp) {
    Bytes saved;
    for (const RowChunk chunk : row_chunks(shape.tokens(), mlp_chunk_rows(model, shape))) {
      saved += padded(model.intermediate * element * chunk.rows) * (model.gated_mlp ? 2 : 1);
    }
    return saved;
  }
  if (kind != BlockKind::attention) return {};

  const auto store = [&](std::int64_t row) { return padded(row * shape.tokens()); };
  const auto stores = [&](std::int64_t row) { return padded(row) * shape.tokens(); };

  const std::int64_t q = model.heads * model.head_dim * element;
  const std::int64_t k = model.kv_heads * model.head_dim * element;
  const bool rotary = model.positions == PositionKind::rotary;
  Bytes saved = stores(q) + stores(model.heads * 4);
  saved += model.fused_qkv ? store(q + 2 * k) : store(q) + store(k) * 2;
  if (rotary) saved += store(model.head_dim / 2 * element) * 2;  // cosines and sines
  if (rotary && model.fused_qkv) saved += store(q) + store(k);   // turned: stores of their own
  if (model.qk_norm) {  // before their norms, with one fp32 statistic per head
    saved += store(q) + store(k) + store(model.heads * 4) + store(model.kv_heads * 4);
  }
  return saved;
}

BlockProfile estimate_block(const ModelSpec& model, const BlockSpec& block, Precision precision,
                            BatchShape shape, const Roofline& roofline) {
  const std::int64_t element = weight_element_bytes(precision);
  const BlockLayout layout = layout_of(block);
  const Bytes boundary = activation_bytes(model, shape, {element});
  BlockProfile result;
  result.key = similarity_key(model, block);
  result.parameters = layout.elements;
  result.weights = weight_bytes(layout, precision);
  result.gradients = gradient_bytes(gradient_layout_of(model, block));
  result.activation = boundary;
  result.activation_gradient = boundary;

  // An MLP takes its tokens in chunks. Each passes over the weights and their gradients' sum.
  const std::int64_t at_once =
      block.kind == BlockKind::mlp ? mlp_chunk_rows(model, shape) : shape.tokens();
  const std::int64_t chunks = std::ssize(row_chunks(shape.tokens(), at_once));
  const Bytes inner_token{inner_row(model, block.kind) * 4};
  result.forward_workspace = inner_token * at_once;
  result.backward_workspace = inner_token * at_once * 3;
  if (block.kind == BlockKind::head) {
    const Bytes logits = Bytes{head_chunk_rows(model, shape) * model.vocab * 4} * 4;
    result.forward_workspace += logits;
    result.backward_workspace += logits;
  }
  if (block.kind == BlockKind::attention) {  // scores of one query row, for kernels that keep them
    result.backward_workspace += Bytes{shape.batch * model.heads * shape.time * 64 * 4};
  }
  if (block.kind == BlockKind::attention || block.kind == BlockKind::mlp ||
      block.kind == BlockKind::norm) {
    // autograd hands out every weight's gradient before it is added to the fp32 sum.
    result.backward_workspace += Bytes{layout.elements * (element + 4)};
  }

  const double work = forward_flops(model, block, shape);
  // A block's operators pass over what lies between them about once each way.
  const Bytes inner = inner_token * shape.tokens();
  result.forward = roofline.time(work, result.weights * chunks + 2 * boundary + inner);
  const Bytes moved = (result.weights + result.gradients) * chunks + 6 * boundary + inner * 3;
  result.backward = roofline.time(3 * work, moved);
  result.saved = saved_bytes(model, block.kind, shape, element);
  if (result.saved > 0_B) {
    result.saved_backward = roofline.time(2 * work, moved);
    result.saving_workspace = result.forward_workspace;
    result.saved_backward_workspace = result.backward_workspace;
  }
  return result;
}

double ratio(double numerator, double denominator) {
  return denominator > 0 ? numerator / denominator : 1.0;
}

Micros scaled(Micros measured, Micros before, Micros after) {
  return measured * ratio(after.count, before.count);
}

Bytes scaled(Bytes measured, Bytes before, Bytes after) {
  const double factor = ratio(static_cast<double>(after.count), static_cast<double>(before.count));
  return {static_cast<std::int64_t>(static_cast<double>(measured.count) * factor) + 1};
}

/// A measured block of another batch: as the estimates of it change.
void scale(BlockProfile& block, const BlockProfile& before, const BlockProfile& after) {
  block.forward = scaled(block.forward, before.forward, after.forward);
  block.backward = scaled(block.backward, before.backward, after.backward);
  block.forward_workspace =
      scaled(block.forward_workspace, before.forward_workspace, after.forward_workspace);
  block.backward_workspace =
      scaled(block.backward_workspace, before.backward_workspace, after.backward_workspace);
  block.activation = after.activation;
  block.activation_gradient = after.activation_gradient;
  if (block.saved == 0_B) return;
  block.saved = round_up(scaled(block.saved, before.saved, after.saved), kDeviceBlock);
  block.saving_forward = scaled(block.saving_forward, before.forward, after.forward);
  block.saved_backward = scaled(block.saved_backward, before.saved_backward, after.saved_backward);
  block.saving_workspace =
      scaled(block.saving_workspace, before.saving_workspace, after.saving_workspace);
  block.saved_backward_workspace =
      scaled(block.saved_backward_workspace, before.saved_backward_workspace,
             after.saved_backward_workspace);
}

Micros device_update_time(const PlanQuestion& question, const MachineDevice& device,
                          double elements) {
  if (device.kind == DeviceKind::sim) {  // the same arithmetic on fewer cores
    const int cores = std::max(1, question.machine.host.cores);
    const double share = static_cast<double>(std::clamp(device.threads, 1, cores)) / cores;
    return from_seconds(elements / (update_rate(question) * share));
  }
  // One pass: the update is one kernel (train/step_kernels.h).
  return from_seconds(elements * update_traffic(question.gradients) / bandwidth_of(device));
}

}  // namespace

Profile estimate_profile(const ModelSpec& model, const Machine& machine, Precision precision,
                         BatchShape shape) {
  Roofline roofline;
  bool gpus = false;
  for (const MachineDevice& device : machine.devices) {
    roofline.flops = std::min(roofline.flops, flops_of(device, precision));
    roofline.bandwidth = std::min(roofline.bandwidth, bandwidth_of(device));
    gpus = gpus || device.kind == DeviceKind::cuda;
  }
  Profile profile;
  profile.name = "estimate";
  profile.micro_batch_size = static_cast<int>(shape.batch);
  profile.sequence = static_cast<int>(shape.time);
  profile.task_overhead = gpus ? kGpuTask : kSimTask;
  profile.copy_overhead = Micros{10};
  for (const BlockSpec& block : model.blocks) {
    BlockProfile entry = estimate_block(model, block, precision, shape, roofline);
    const auto same = std::find_if(profile.blocks.begin(), profile.blocks.end(),
                                   [&](const BlockProfile& b) { return b.key == entry.key; });
    profile.chain.push_back(static_cast<int>(same - profile.blocks.begin()));
    if (same == profile.blocks.end()) profile.blocks.push_back(std::move(entry));
  }
  return profile;
}

PlanQuestion with_estimated_profile(const PlanQuestion& question) {
  PlanQuestion result = question;
  if (question.profile.blocks.empty()) {
    result.profile = estimate_profile(question.model, question.machine, question.precision,
                                      {question.micro_batch_size, question.sequence});
  }
  return result;
}

PlanQuestion with_batch(const PlanQuestion& question, int micro_batches, int micro_batch_size,
                        int sequence) {
  PlanQuestion result = question;
  result.micro_batches = micro_batches;
  result.micro_batch_size = micro_batch_size;
  result.sequence = sequence;
  const auto estimate = [&](int batch, int time) {
    return estimate_profile(question.model, question.machine, question.precision, {batch, time});
  };
  const Profile before = estimate(question.micro_batch_size, question.sequence);
  const Profile after = estimate(micro_batch_size, sequence);
  if (question.profile == before) {
    result.profile = after;
    return result;
  }
  result.profile.micro_batch_size = micro_batch_size;
  result.profile.sequence = sequence;
  for (BlockProfile& block : result.profile.blocks) {
    const BlockProfile* old_guess = find_block(before, block.key);
    const BlockProfile* new_guess = find_block(after, block.key);
    if (old_guess != nullptr && new_guess != nullptr) scale(block, *old_guess, *new_guess);
  }
  return result;
}

double estimated_update_rate(const Host& host, Precision gradients) {
  const double bandwidth = host.memory_bandwidth.limited()
                               ? host.memory_bandwidth.bytes_per_second
                               : kHostBandwidth * std::max(1, host.cores);
  return bandwidth / update_traffic(gradients);
}

// By the slowest device, as everything of a block: it may be at home on any.
Micros device_update_time(const PlanQuestion& question, std::int64_t elements) {
  const auto count = static_cast<double>(elements);
  if (question.profile.device_update_rate > 0) {
    return from_seconds(count / question.profile.device_update_rate);
  }
  Micros slowest;
  for (const MachineDevice& device : question.machine.devices) {
    slowest = std::max(slowest, device_update_time(question, device, count));
  }
  return slowest;
}

}  // namespace ferry
