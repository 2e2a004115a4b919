#include "train/bench_plan.h"

#include <utility>

#include "base/device_block.h"
#include "plan/task_signature.h"
#include "spec/layout.h"
#include "train/block_math.h"

namespace ferry {
namespace {

constexpr int kMicroBatches = 2;

}  // namespace

BenchPlan::BenchPlan(const ModelSpec& model, const MeasureRequest& request, BlockId block,
                     Bytes saved)
    : model_(model), block_(block) {
  plan.strategy = "measure";
  plan.micro_batches = kMicroBatches;
  plan.micro_batch_size = request.micro_batch_size;
  plan.sequence = request.sequence;
  plan.precision = request.precision;
  plan.places = {{"device", PlaceKind::device, {}, {}}, {"host", PlaceKind::host, {}, {}}};
  plan.resources = {{"compute", ResourceKind::compute, kDevice, 0, {}, {}},
                    {"up", ResourceKind::copy, kDevice, 0, {}, {}}};
  for (const BlockSpec& each : model.blocks) {
    const bool head = each.kind == BlockKind::head, tied = head && model.tied;
    plan.blocks.push_back({to_string(each.kind), 0, !tied, head, tied ? BlockId(0) : BlockId()});
  }
  add({ValueKind::tokens, {}, 0, tokens_bytes({request.micro_batch_size, request.sequence})});
  add({ValueKind::loss, {}, 0, 4_B});
  add_boundaries(request);
  add_states();
  if (saved > 0_B) add({ValueKind::saved, block, 0, saved});
  add_tasks(saved > 0_B);
}

void BenchPlan::add(Value value) {
  end_ = round_up(end_, kDeviceBlock);
  places_[{value.kind, value.block}] =
      plan.instances.add({plan.values.add(value), kDevice, end_, false});
  end_ += value.bytes;
}

void BenchPlan::add_boundaries(const MeasureRequest& request) {
  const Bytes bytes = activation_bytes(model_, {request.micro_batch_size, request.sequence},
                                       Bytes{weight_element_bytes(request.precision)});
  BlockId above = block_;
  for (const BlockId b : {block_, ++above}) {
    if (b == BlockId(0) || !model_.blocks.has(b)) continue;
    add({ValueKind::activation, b, 0, bytes});
    add({ValueKind::activation_gradient, b, 0, bytes});
  }
}

void BenchPlan::add_states() {
  const BlockId tied = plan.blocks[block_].reads_weight;
  const BlockId owner = tied.valid() ? tied : block_;
  add({ValueKind::weight, owner, -1,
       weight_bytes(layout_of(model_.blocks[owner]), plan.precision)});
  add({ValueKind::norm, owner, -1, 8_B});
  for (const BlockId b : model_.blocks.ids()) {
    // The embedding's last backward adds the sum of a tied head.
    const bool added = plan.blocks[b].reads_weight.valid() && block_ == BlockId(0);
    if (b != block_ && !added) continue;
    add({ValueKind::gradient, b, -1, gradient_bytes(gradient_layout_of(model_, model_.blocks[b]))});
  }
}

void BenchPlan::add_tasks(bool keeps) {
  TaskSignatures signatures(plan);
  const auto add_task = [&](TaskKind kind, int m, bool keeping) {
    Task task;
    task.name = kind == TaskKind::forward ? "F" : "B";
    task.kind = kind;
    task.resource = kCompute;
    task.block = block_;
    task.micro_batch = m;
    signatures.write(task, keeping, [&](const Access& access, bool) {
      return places_.at({access.value.kind, access.value.block});
    });
    task.micro_batch = 0;  // all run on the one batch
    return plan.tasks.add(std::move(task));
  };
  const bool head = model_.blocks[block_].kind == BlockKind::head;
  if (!head) forward = add_task(TaskKind::forward, 0, false);
  first_backward = add_task(TaskKind::backward, 0, false);
  last_backward = add_task(TaskKind::backward, kMicroBatches - 1, false);
  if (!keeps) return;
  saving_forward = add_task(TaskKind::forward, 0, true);
  saved_backward = add_task(TaskKind::backward, kMicroBatches - 1, true);
}

}  // namespace ferry
