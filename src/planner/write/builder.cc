#include "planner/write/builder.h"

#include <algorithm>
#include <cstddef>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "planner/write/activation_policy.h"
#include "planner/write/host_slots.h"

namespace ferry {
namespace {

std::string numbered(const std::string& letter, BlockId block, int index) {
  std::string name = letter;
  if (block.valid()) name += "." + to_string(block);
  if (index >= 0) name += "." + std::to_string(index);
  return name;
}

/// The same for every task of its kind, block, micro-batch and piece.
std::string shared_name(const Plan& plan, const Task& task) {
  switch (task.kind) {
    case TaskKind::load:
      return numbered("X", {}, task.micro_batch);
    case TaskKind::forward:
      return numbered("F", task.block, task.micro_batch);
    case TaskKind::backward:
      return numbered("B", task.block, task.micro_batch);
    case TaskKind::copy: {
      const Value& moved = plan.values[plan.instances[task.reads.front()].value];
      return value_name(moved) + ">" + plan.places[plan.instances[task.writes.front()].place].name;
    }
    case TaskKind::update:
      return numbered("U", task.block, task.piece);
    case TaskKind::redo:
      return numbered("redo", task.block, -1);
    case TaskKind::clip:
    case TaskKind::work:
      break;
  }
  return "clip";
}

Task task_of(TaskKind kind, BlockId block, int micro_batch) {
  Task task;
  task.kind = kind;
  task.block = block;
  task.micro_batch = micro_batch;
  return task;
}

// Whether the next step makes it anew.
bool ends_with_step(ValueKind kind) {
  switch (kind) {
    case ValueKind::activation:
    case ValueKind::activation_gradient:
    case ValueKind::saved:
    case ValueKind::gradient:
    case ValueKind::rounded:
      return true;
    default:
      return false;
  }
}

std::string block_kind_name(const ChainBlock& block) { return to_string(block.kind); }

}  // namespace

PlanBuilder::PlanBuilder(const PlanQuestion& question, const Chain& chain,
                         const std::string& strategy, const Listing& backwards, int devices,
                         bool drives)
    : question_(question), chain_(chain), backwards_(backwards) {
  plan_.mode = question.mode;
  plan_.strategy = strategy;
  plan_.micro_batches = question.micro_batches;
  plan_.micro_batch_size = question.micro_batch_size;
  plan_.sequence = question.sequence;
  plan_.precision = question.precision;
  plan_.clips = question.clips && question.mode == PlanMode::train;
  plan_.norm_first = question.norm_first && plan_.clips;
  if (question.mode == PlanMode::train) plan_.gradients = question.gradients;
  for (const ChainBlock& block : chain.blocks) {
    plan_.blocks.push_back(
        {block_kind_name(block), 0, block.trainable, block.fused, block.reads_weight});
  }
  std::size_t pieces = 0;  // of all states, on drives
  indices_ = question.micro_batches + 1;
  for (const ChainBlock& block : chain.blocks) {
    if (!drives || !block.trainable) continue;
    const auto count = static_cast<std::size_t>(state_pieces(block));
    pieces += count;
    indices_ = std::max(indices_, count + 1);
  }
  // Every pass is a task, forward and backward, and has rarely more than five copies.
  plan_.tasks.reserve(12 * chain.size() * static_cast<std::size_t>(question.micro_batches) +
                      3 * pieces);
  const DriveArray array = drives ? drive_array(question, chain) : DriveArray{};
  queues_ = add_queues(plan_, question, devices, drives ? &array : nullptr);
}

ResourceId PlanBuilder::between(int from, int to, Cargo cargo) {
  ResourceId& queue = between_[{from, to, cargo}];
  if (!queue.valid()) queue = add_queue_between(plan_, question_, queues_, from, to, cargo);
  return queue;
}

ResourceId PlanBuilder::renewals_up(int device) {
  ResourceId& queue = renewals_[device];
  if (queue.valid()) return queue;
  const DeviceQueues& queues = queues_.devices[device];
  Resource made = plan_.resources[queues.weights_up];
  made.name = plan_.places[queues.place].name + ".renewals_up";
  return queue = plan_.resources.add(std::move(made));
}

void PlanBuilder::set_stage(BlockId block, int stage) { plan_.blocks[block].stage = stage; }

void PlanBuilder::set_again_from(int block) {
  if (plan_.norm_first) plan_.again_from = block;
}

/// In `values_`.
std::size_t PlanBuilder::position_of(ValueKind kind, BlockId block, int index) const {
  const std::size_t rows = chain_.size() + 2;  // of a kind: "none", the blocks, what follows them
  const std::size_t row =
      static_cast<std::size_t>(kind) * rows + (block.valid() ? block.index() + 1 : 0);
  return row * indices_ + (index + 1);
}

ValueId PlanBuilder::value(ValueKind kind, BlockId block, int index) {
  const std::size_t at = position_of(kind, block, index);
  if (at >= values_.size()) values_.resize(at + 1);
  ValueId& id = values_[at];
  if (id.valid()) return id;
  const bool is_state = kind == ValueKind::state;
  Value made{kind, block, is_state ? -1 : index, {}, is_state ? index : -1};
  const ChainBlock* owner = chain_.blocks.has(block) ? &chain_.blocks[block] : nullptr;
  switch (kind) {
    case ValueKind::weight:
      made.bytes = owner->weights;
      break;
    case ValueKind::state:
      made.bytes = piece_bytes(*owner, index);
      break;
    case ValueKind::gradient:
      made.bytes = owner->gradients;
      break;
    case ValueKind::rounded:
      made.bytes = owner->rounded;
      break;
    case ValueKind::original:
      made.bytes = owner->weights + owner->states;
      break;
    case ValueKind::norm:
      made.bytes = 8_B;
      break;
    case ValueKind::activation:
    case ValueKind::activation_gradient:
      made.bytes = chain_.activation;
      break;
    case ValueKind::saved:
      made.bytes = owner->saved;
      break;
    case ValueKind::tokens:
      made.bytes = chain_.tokens;
      break;
    case ValueKind::loss:
    case ValueKind::clip:
      made.bytes = 4_B;
      break;
  }
  latest_.push_back({});
  id = plan_.values.add(made);
  return id;
}

Bytes PlanBuilder::bytes(ValueId value) const { return plan_.values[value].bytes; }

InstanceId PlanBuilder::instance(ValueId value, PlaceId place, Bytes offset, bool home) {
  for (InstanceId id = latest_[value]; id.valid(); id = one_before_[id]) {
    const Instance& made = plan_.instances[id];
    if (made.place == place && made.offset == offset) return id;
  }
  one_before_.push_back(latest_[value]);
  return latest_[value] = plan_.instances.add({value, place, offset, home});
}

Bytes PlanBuilder::lay_out_home(PlaceId place) {
  return lay_out_homes([place](ValueKind, BlockId, int) { return place; })[place];
}

std::map<PlaceId, Bytes> PlanBuilder::lay_out_homes(
    const std::function<PlaceId(ValueKind kind, BlockId block, int piece)>& place_of) {
  std::map<PlaceId, Bytes> ends;
  for (const BlockId b : chain_.blocks.ids()) {
    if (!chain_.blocks[b].trainable) continue;
    for (const ValueKind kind : {ValueKind::weight, ValueKind::state}) {
      const int all = kind == ValueKind::state ? state_pieces(chain_.blocks[b]) : 1;
      const PlaceId last = place_of(kind, b, std::max(0, all - 1));
      const bool is_cut = kind == ValueKind::state && plan_.places[last].kind == PlaceKind::drive;
      for (int p = 0; p < (is_cut ? all : 1); ++p) {
        const PlaceId place = is_cut ? place_of(kind, b, p) : last;
        Bytes& end = ends[place];
        const int index = is_cut ? piece_number(chain_.blocks[b], p) : -1;
        const ValueId id = value(kind, b, index);
        home_.resize(plan_.values.size());
        home_[id] = instance(id, place, end, true);
        end = round_up(end + bytes(id), kHomeAlignment);
      }
    }
  }
  signatures_.emplace(plan_);
  return ends;
}

InstanceId PlanBuilder::home(ValueKind kind, BlockId block, int piece) const {
  const ValueId value = values_.at(position_of(kind, block, piece));
  FERRY_CHECK(home_.has(value) && home_[value].valid(), "weights and states have homes");
  return home_[value];
}

Task PlanBuilder::make(Task task, bool keeps, const Where& where, const Listing& listing) {
  signatures_->write(task, keeps, where, listing);
  return task;
}

void PlanBuilder::load(int micro_batch, InstanceId to) {
  Task task = make(task_of(TaskKind::load, {}, micro_batch), false,
                   [to](const Access&, bool) { return to; });
  task.resource = queues_.load;
  task.micros = question_.profile.task_overhead;  // a few rows of a token file in the page cache
  plan_.tasks.push_back(std::move(task));
}

void PlanBuilder::forward(BlockId block, int micro_batch, int device_index, bool keeps,
                          const Where& where) {
  const ChainBlock& costs = chain_.blocks[block];
  Task task = make(task_of(TaskKind::forward, block, micro_batch), keeps, where);
  task.resource = device(device_index).compute;
  task.micros = keeps ? costs.saving_forward : costs.forward;
  task.workspace = forward_workspace(costs, keeps);
  plan_.tasks.push_back(std::move(task));
}

void PlanBuilder::backward(BlockId block, int micro_batch, int device_index, bool keeps,
                           const Where& where) {
  const ChainBlock& costs = chain_.blocks[block];
  Task task = make(task_of(TaskKind::backward, block, micro_batch), keeps, where, backwards_);
  task.resource = device(device_index).compute;
  task.micros = keeps ? costs.saved_backward : costs.backward;
  task.workspace = backward_workspace(costs, keeps);
  plan_.tasks.push_back(std::move(task));
}

void PlanBuilder::copy(ResourceId queue, InstanceId from, InstanceId to) {
  const Value& moved = plan_.values[plan_.instances[from].value];
  Task task;
  task.kind = TaskKind::copy;
  task.resource = queue;
  task.block = moved.block;
  task.micro_batch = moved.micro_batch;
  task.reads = {from};
  task.writes = {to};
  task.bytes = moved.bytes;
  plan_.tasks.push_back(std::move(task));
}

void PlanBuilder::refresh(ResourceId queue, InstanceId from, InstanceId to) {
  copy(queue, from, to);
  plan_.tasks.back().refreshes = true;
}

void PlanBuilder::clip(const Where& where) {
  Task task = make(task_of(TaskKind::clip, {}, -1), false, where);
  const auto losses = task.reads.end() - plan_.micro_batches;
  std::sort(task.reads.begin(), losses);
  std::sort(losses, task.reads.end());
  task.resource = queues_.update;
  task.micros = question_.profile.task_overhead;
  plan_.tasks.push_back(std::move(task));
}

void PlanBuilder::update(BlockId block, ResourceId queue, InstanceId sum, InstanceId scale) {
  update(block, queue,
         {home(ValueKind::weight, block), home(ValueKind::state, block), sum, scale, {}});
}

void PlanBuilder::update(BlockId block, ResourceId queue, const UpdateInstances& instances,
                         int piece) {
  const ChainBlock& costs = chain_.blocks[block];
  const bool on_host = queue == queues_.update;
  Task task = make_update(TaskKind::update, block, instances, piece);
  task.resource = queue;
  task.micros = on_host ? host_update(block, piece) : costs.device_update;
  if (instances.original.valid()) {
    task.micros = task.micros * (1 + keeping_traffic() / update_traffic(question_.gradients));
  }
  task.workspace = on_host ? Bytes{} : costs.device_update_workspace;
  plan_.tasks.push_back(std::move(task));
}

Micros PlanBuilder::host_update(BlockId block, int piece) const {
  const ChainBlock& costs = chain_.blocks[block];
  if (piece < 0) return costs.host_update;
  const double share = as_double(piece_bytes(costs, piece)) / as_double(costs.states);
  const Micros overhead = question_.profile.task_overhead;
  return (costs.host_update - overhead) * share + overhead;
}

void PlanBuilder::redo(BlockId block, const UpdateInstances& instances) {
  Task task = make_update(TaskKind::redo, block, instances);
  task.resource = queues_.update;
  plan_.tasks.push_back(std::move(task));
}

Task PlanBuilder::make_update(TaskKind kind, BlockId block, const UpdateInstances& instances,
                              int piece) {
  Task task = task_of(kind, block, -1);
  task.piece = piece;
  return make(std::move(task), false, [&](const Access& access, bool) {
    switch (access.part) {
      case Part::weight:
        return instances.weights;
      case Part::state:
        return instances.states;
      case Part::original:
        return instances.original;
      case Part::clip:
        return instances.scale;
      default:
        return instances.sum;
    }
  });
}

void PlanBuilder::settle(Bytes host_end, int gradient_slots, TaskNames names) {
  if (names == TaskNames::given) name_tasks();
  drop_unread_copies();
  drop_unused_instances();
  place_on_host(plan_, queues_.host, round_up(host_end, kSlotAlignment),
                {.slot = round_up(chain_.activation, kSlotAlignment),
                 .stages = gradient_slots,
                 .batches = batches_at_once(question_)},
                question_.shares_dram);
  set_workspaces();
}

void PlanBuilder::name_tasks() {
  std::unordered_map<std::string, int> given;
  given.reserve(plan_.tasks.size());
  for (Task& task : plan_.tasks) {
    task.name = shared_name(plan_, task);
    const int repeats = given[task.name]++;
    if (repeats > 0) task.name += "#" + std::to_string(repeats);
  }
}

// A checkpoint, or what was kept, whose device slot survived until backward went to the host, and
// from there to the drives, in vain; and so did a sum to the drives that was still in DRAM when
// another device went on with it.
void PlanBuilder::drop_unread_copies() {
  IdVector<InstanceId, bool> is_read(plan_.instances.size(), false);  // before it is written again
  const auto passes_in_vain = [&](const Task& task) {
    if (task.kind != TaskKind::copy) return false;
    const InstanceId to = task.writes.front();
    const Instance& written = plan_.instances[to];
    return !is_read[to] && plan_.places[written.place].kind != PlaceKind::device &&
           ends_with_step(plan_.values[written.value].kind);
  };
  IdVector<TaskId, bool> in_vain(plan_.tasks.size(), false);
  for (TaskId id = plan_.tasks.end_id(); id > TaskId(0);) {
    const Task& task = plan_.tasks[--id];
    in_vain[id] = passes_in_vain(task);
    if (in_vain[id]) continue;
    for (const InstanceId written : task.writes) is_read[written] = false;
    for (const InstanceId read : task.reads) is_read[read] = true;
  }
  auto drops = in_vain.begin();
  std::erase_if(plan_.tasks, [&](const Task&) { return bool(*drops++); });
}

void PlanBuilder::drop_unused_instances() {
  IdVector<InstanceId, bool> used(plan_.instances.size(), false);
  for (const Task& task : plan_.tasks) {
    for (const InstanceId id : task.reads) used[id] = true;
    for (const InstanceId id : task.writes) used[id] = true;
  }
  IdVector<InstanceId, InstanceId> instance_ids(plan_.instances.size());
  IdVector<ValueId, ValueId> value_ids(plan_.values.size());
  IdVector<InstanceId, Instance> instances;
  IdVector<ValueId, Value> values;
  for (const InstanceId i : plan_.instances.ids()) {
    Instance kept = plan_.instances[i];
    if (!used[i] && !kept.home) continue;
    ValueId& value_id = value_ids[kept.value];
    if (!value_id.valid()) value_id = values.add(plan_.values[kept.value]);
    kept.value = value_id;
    instance_ids[i] = instances.add(kept);
  }
  for (Task& task : plan_.tasks) {
    for (InstanceId& id : task.reads) id = instance_ids[id];
    for (InstanceId& id : task.writes) id = instance_ids[id];
  }
  plan_.instances = std::move(instances);
  plan_.values = std::move(values);
}

void PlanBuilder::set_workspaces() {
  for (const Task& task : plan_.tasks) {
    Place& place = plan_.places[plan_.resources[task.resource].place];
    place.workspace = std::max(place.workspace, task.workspace);
  }
}

Plan PlanBuilder::finish() { return std::move(plan_); }

}  // namespace ferry
