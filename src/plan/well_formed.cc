#include "plan/well_formed.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_set>
#include <utility>

#include "plan/task_signature.h"
#include "plan/words.h"

namespace ferry {
namespace {

using Finding = std::optional<std::string>;

// Far beyond any machine, and small enough that no time, speed or sum leaves the range of a double.
constexpr double kLeastRate = 1e-3;
constexpr double kMostRate = 1e18;
constexpr double kMostMicros = 1e15;

// A clock per resource and task run is kept during the replay.
constexpr std::size_t kMostResources = 1024;
constexpr int kMostStaleness = 8;

bool is_rate(double rate) { return rate >= kLeastRate && rate <= kMostRate; }
bool is_time(Micros time) { return time.count >= 0 && time.count <= kMostMicros; }

template <typename T>
Finding check_names(const std::vector<T>& entities, const std::string& entity) {
  std::unordered_set<std::string_view> seen;
  for (const T& one : entities) {
    if (!is_name(one.name)) return entity + " '" + one.name + "' has no proper name";
    if (!seen.insert(one.name).second) return "two of one name: " + entity + " '" + one.name + "'";
  }
  return {};
}

std::string key_name(const ValueKey& key) {
  Value value;
  value.kind = key.kind;
  value.block = key.block;
  value.micro_batch = key.micro_batch;
  value.piece = key.piece;
  return value_name(value);
}

std::string misplaced(const Task& task, const Resource& resource) {
  return "task '" + task.name + "' is a " + std::string(to_string(task.kind)) + " on '" +
         resource.name + "', which is of kind " + std::string(to_string(resource.kind));
}

class FormCheck {
 public:
  explicit FormCheck(const Plan& plan) : plan_(plan) {}

  Finding find() const {
    Finding finding = step();
    if (!finding) finding = blocks();
    if (!finding) finding = machine();
    if (!finding) finding = memory();
    if (!finding) finding = check_names(plan_.tasks, "task");
    if (!finding) finding = tasks();
    return finding;
  }

 private:
  Finding step() const;
  Finding blocks() const;
  Finding machine() const;
  Finding resource(const Resource& resource) const;
  Finding values() const;
  Finding pieces() const;
  Finding memory() const;
  Finding tasks() const;
  bool may_round(BlockId block) const;
  bool may_update_ahead(BlockId block) const;
  Finding rounds(const Task& task) const;
  Finding references(const Task& task) const;
  Finding tells_time(const Task& task) const;
  Finding indices(const Task& task) const;
  Finding runs_on(const Task& task, const TaskSignatures& signatures) const;
  Finding copy(const Task& task) const;
  Finding refreshes(const Task& task, const TaskSignatures& signatures) const;
  Finding accesses(const Task& task, const FewIds<InstanceId>& instances,
                   const std::vector<Access>& known, const std::string& verb) const;

  const Value& value_of(InstanceId id) const { return plan_.values[plan_.instances[id].value]; }

  const Plan& plan_;
};

Finding FormCheck::step() const {
  if (!is_name(plan_.strategy)) return "the strategy has no proper name";
  if (plan_.micro_batches < 1 || plan_.micro_batch_size < 1 || plan_.sequence < 1) {
    return "micro_batches, micro_batch_size and sequence have to be at least 1";
  }
  if (plan_.staleness < 0 || plan_.staleness > kMostStaleness) {
    return "staleness " + std::to_string(plan_.staleness) + " is not within 0 to " +
           std::to_string(kMostStaleness);
  }
  if (plan_.norm_first && !(plan_.clips && plan_.mode == PlanMode::train)) {
    return "norm_first is of a training step that clips";
  }
  if (plan_.blocks.empty()) return "the plan has no block";
  if (plan_.again_from != 0 && !(plan_.norm_first && plan_.blocks.has(BlockId(plan_.again_from)))) {
    return "again_from=" + std::to_string(plan_.again_from) +
           " is no block of a step with norm_first";
  }
  if (plan_.tasks.empty()) return "the plan has no task";
  if (plan_.timing_only) {
    if (plan_.values.empty() && plan_.instances.empty()) return {};
    return "the plan only tells time, but has values or instances";
  }
  if (std::cmp_greater(plan_.micro_batches, plan_.values.size())) {
    return std::to_string(plan_.micro_batches) + " micro-batches have only " +
           std::to_string(plan_.values.size()) + " values";
  }
  return {};
}

Finding FormCheck::blocks() const {
  int stage = 0;
  for (const BlockId b : plan_.blocks.ids()) {
    const PlanBlock& block = plan_.blocks[b];
    const std::string name = "block " + to_string(b);
    const bool last = &block == &plan_.blocks.back();
    if (!is_name(block.kind)) return name + " has no proper kind";
    if (block.stage != stage && (b == BlockId(0) || block.stage != stage + 1)) {
      return name + " is of stage " + std::to_string(block.stage) + " after stage " +
             std::to_string(stage) + "; stages count from 0 without gaps";
    }
    stage = block.stage;
    if (plan_.timing_only) continue;
    if (plan_.mode == PlanMode::train && block.fused != last) {
      return name + (last ? " is the last and has to be fused" : " is fused and not the last");
    }
    if (!block.reads_weight.valid()) continue;
    if (block.reads_weight >= b || block.trainable || !plan_.blocks[block.reads_weight].trainable) {
      return name + " reads the weights of block " + to_string(block.reads_weight) +
             "; only a block without weights of its own may read an earlier trainable one's";
    }
  }
  return {};
}

Finding FormCheck::machine() const {
  if (auto finding = check_names(plan_.pools, "pool")) return finding;
  if (auto finding = check_names(plan_.places, "place")) return finding;
  if (auto finding = check_names(plan_.resources, "resource")) return finding;
  for (const Pool& pool : plan_.pools) {
    if (!is_rate(pool.capacity)) return "pool '" + pool.name + "' has no proper capacity";
  }
  const auto hosts = std::count_if(plan_.places.begin(), plan_.places.end(),
                                   [](const Place& p) { return p.kind == PlaceKind::host; });
  if (hosts != 1) return "the plan has " + std::to_string(hosts) + " host places, not 1";
  for (const Place& place : plan_.places) {
    if (!is_place_name(place.name)) return "place '" + place.name + "' has no proper name";
    if (place.budget < Bytes{} || place.workspace < Bytes{}) {
      return "place '" + place.name + "' has a negative budget or workspace";
    }
  }
  if (plan_.resources.size() > kMostResources) {
    return std::to_string(plan_.resources.size()) + " resources are more than " +
           std::to_string(kMostResources);
  }
  for (const Resource& one : plan_.resources) {
    if (auto finding = resource(one)) return finding;
  }
  return {};
}

Finding FormCheck::resource(const Resource& resource) const {
  const std::string name = "resource '" + resource.name + "'";
  if (!plan_.places.has(resource.place)) return name + " is at no place";
  const PlaceKind at = plan_.places[resource.place].kind;
  if (resource.kind == ResourceKind::compute && at != PlaceKind::device) {
    return name + " computes, but is not at a device";
  }
  if (resource.kind == ResourceKind::host && at != PlaceKind::host) {
    return name + " is a host worker, but is not at the host";
  }
  if (resource.kind == ResourceKind::copy && at == PlaceKind::host && !plan_.timing_only) {
    return name + " copies, but is at the host: copies are on queues of devices and drives";
  }
  if (resource.kind == ResourceKind::copy && !is_rate(resource.rate)) {
    return name + " copies, but has no proper rate";
  }
  if (!is_time(resource.latency)) return name + " has no proper latency";
  int in_turn = 0;
  for (const Draw& draw : resource.draws) {
    if (!plan_.pools.has(draw.pool)) return name + " draws on no pool";
    if (!is_rate(draw.rate)) return name + " has no proper rate of a draw";
    in_turn += plan_.pools[draw.pool].in_turn ? 1 : 0;
  }
  if (in_turn > 0 && resource.kind != ResourceKind::copy) {
    return name + " draws on a pool in turn, but does not copy";
  }
  if (in_turn > 1) return name + " draws on several pools in turn";
  return {};
}

Finding FormCheck::values() const {
  std::unordered_set<std::string> seen;
  IdVector<BlockId, bool> has_weight(plan_.blocks.size());
  for (const Value& value : plan_.values) {
    const std::string name = value_name(value);
    const bool block_fits =
        has_block(value.kind) ? plan_.blocks.has(value.block) : value.block == BlockId();
    const bool micro_batch_fits =
        has_micro_batch(value.kind)
            ? value.micro_batch >= 0 && value.micro_batch < plan_.micro_batches
            : value.micro_batch == -1;
    if (!block_fits) return "value " + name + " is of no block of the plan";
    if (!micro_batch_fits) return "value " + name + " is of no micro-batch of the plan";
    if (value.bytes <= Bytes{}) return "value " + name + " has no bytes";
    if (value.kind == ValueKind::rounded && !may_round(value.block)) {
      return "value " + name + " is of no sum that the step rounds";
    }
    if (value.kind == ValueKind::original && !may_update_ahead(value.block)) {
      return "value " + name + " is of no block whose update waits for the step's norm";
    }
    if (value.kind == ValueKind::saved && runs_again(plan_, value.block)) {
      return "value " + name + " serves one backward, and with norm_first there are two";
    }
    if (!seen.insert(name).second) return "two of one name: value " + name;
    if (value.kind == ValueKind::weight) has_weight[value.block] = true;
  }
  if (auto finding = pieces()) return finding;
  for (const BlockId b : plan_.blocks.ids()) {
    if (plan_.blocks[b].trainable && !has_weight[b] && !plan_.timing_only) {
      return "block " + to_string(b) + " is trainable, but there is no value W." + to_string(b);
    }
  }
  return {};
}

// A block's state is whole, or in pieces that count from 0 without gaps. What is updated ahead is
// taken back as a whole.
Finding FormCheck::pieces() const {
  IdVector<BlockId, int> pieces(plan_.blocks.size());
  IdVector<BlockId, bool> whole(plan_.blocks.size());
  IdVector<BlockId, bool> ahead(plan_.blocks.size());
  for (const Value& value : plan_.values) {
    if (value.kind == ValueKind::original) ahead[value.block] = true;
    if (value.kind != ValueKind::state) continue;
    if (value.piece < 0) {
      whole[value.block] = true;
    } else if (value.piece != pieces[value.block]++) {
      return "value " + value_name(value) + " comes after " +
             std::to_string(pieces[value.block] - 1) + " pieces of S." + to_string(value.block) +
             "; they count from 0 without gaps";
    }
  }
  for (const BlockId b : plan_.blocks.ids()) {
    if (pieces[b] == 0) continue;
    if (whole[b]) return "the plan has S." + to_string(b) + " whole and in pieces";
    if (ahead[b])
      return "the plan has O." + to_string(b) + ", and S." + to_string(b) + " in pieces";
  }
  return {};
}

bool FormCheck::may_round(BlockId block) const {
  return plan_.mode == PlanMode::train && plan_.gradients == Precision::bf16 &&
         plan_.blocks[block].trainable;
}

bool FormCheck::may_update_ahead(BlockId block) const {
  return plan_.mode == PlanMode::train && plan_.clips && !plan_.norm_first &&
         plan_.blocks[block].trainable;
}

Finding FormCheck::memory() const {
  if (auto finding = values()) return finding;
  for (const InstanceId id : plan_.instances.ids()) {
    const Instance& instance = plan_.instances[id];
    if (!plan_.values.has(instance.value) || !plan_.places.has(instance.place)) {
      return "instance " + to_string(id) + " has no value or no place";
    }
    const Value& value = plan_.values[instance.value];
    const std::int64_t most = std::numeric_limits<std::int64_t>::max() - value.bytes.count;
    if (instance.offset.count < 0 || instance.offset.count > most) {
      return "instance " + instance_name(plan_, id) + " has no proper offset";
    }
    if (instance.home && value.kind != ValueKind::weight && value.kind != ValueKind::state) {
      return "instance " + instance_name(plan_, id) +
             " is at home, but only weights and states outlast a step";
    }
  }
  return {};
}

Finding FormCheck::tasks() const {
  const TaskSignatures signatures(plan_);
  TaskSignature signature;
  for (const Task& task : plan_.tasks) {
    if (auto finding = references(task)) return finding;
    if (plan_.timing_only) {
      if (auto finding = tells_time(task)) return finding;
      continue;
    }
    if (auto finding = indices(task)) return finding;
    if (auto finding = runs_on(task, signatures)) return finding;
    if (auto finding = refreshes(task, signatures)) return finding;
    if (task.kind == TaskKind::copy) {
      if (auto finding = copy(task)) return finding;
      continue;
    }
    signatures.fill(task, signature);
    if (auto finding = accesses(task, task.reads, signature.reads, "read")) return finding;
    if (auto finding = accesses(task, task.writes, signature.writes, "write")) return finding;
    if (auto finding = rounds(task)) return finding;
  }
  return {};
}

// Sums leave devices for their update rounded; only a device rounds what it reads itself.
Finding FormCheck::rounds(const Task& task) const {
  const bool on_host = plan_.resources[task.resource].kind == ResourceKind::host;
  const bool updates = task.kind == TaskKind::update || task.kind == TaskKind::redo;
  if (!updates || !on_host || plan_.gradients == Precision::fp32) return {};
  const auto is_sum = [&](InstanceId id) { return value_of(id).kind == ValueKind::gradient; };
  if (std::ranges::none_of(task.reads, is_sum)) return {};
  return "task '" + task.name + "' updates on the host by the sum G." + to_string(task.block) +
         ", where the step rounds sums; expected R." + to_string(task.block);
}

Finding FormCheck::references(const Task& task) const {
  const std::string name = "task '" + task.name + "'";
  const auto all_in = [](const auto& vector, const auto& ids) {
    return std::all_of(ids.begin(), ids.end(), [&](auto id) { return vector.has(id); });
  };
  if (!plan_.resources.has(task.resource)) return name + " runs on no resource";
  if (!all_in(plan_.instances, task.reads)) return name + " reads an unknown instance";
  if (!all_in(plan_.instances, task.writes)) return name + " writes an unknown instance";
  if (!all_in(plan_.tasks, task.after) || !all_in(plan_.tasks, task.after_previous)) {
    return name + " comes after an unknown task";
  }
  if (!is_time(task.micros)) return name + " has no proper duration";
  if (task.bytes < Bytes{} || task.workspace < Bytes{}) {
    return name + " has a negative number of bytes";
  }
  return {};
}

// A task of a plan that only tells time: of any kind, on any resource that can time it.
Finding FormCheck::tells_time(const Task& task) const {
  const std::string name = "task '" + task.name + "'";
  if (!task.reads.empty() || !task.writes.empty()) {
    return name + " reads or writes, but the plan only tells time";
  }
  if (task.block.valid() && !plan_.blocks.has(task.block)) {
    return name + " is of no block of the plan";
  }
  if (task.micro_batch >= plan_.micro_batches) return name + " is of no micro-batch of the plan";
  const Resource& resource = plan_.resources[task.resource];
  if ((task.kind == TaskKind::copy) != (resource.kind == ResourceKind::copy)) {
    return misplaced(task, resource);
  }
  return {};
}

Finding FormCheck::indices(const Task& task) const {
  const bool is_compute = task.kind == TaskKind::forward || task.kind == TaskKind::backward;
  const bool updates = task.kind == TaskKind::update || task.kind == TaskKind::redo;
  const bool needs_block = is_compute || updates;
  const bool needs_micro_batch = is_compute || task.kind == TaskKind::load;
  const std::string name = "task '" + task.name + "'";
  if (needs_block && !plan_.blocks.has(task.block)) {
    return name + " is of no block of the plan";
  }
  if (needs_micro_batch && (task.micro_batch < 0 || task.micro_batch >= plan_.micro_batches)) {
    return name + " is of no micro-batch of the plan";
  }
  if (task.piece >= 0 && task.kind != TaskKind::update) {
    return name + " is of a piece, and only updates are";
  }
  if (!is_compute && !updates) return {};
  const PlanBlock& block = plan_.blocks[task.block];
  const bool trains = plan_.mode == PlanMode::train;
  if (!trains && task.kind != TaskKind::forward) {
    return name + " is a " + std::string(to_string(task.kind)) + " in a plan that only evaluates";
  }
  if (trains && task.kind == TaskKind::forward && block.fused) {
    return name + " is a forward of the fused head, whose backward is its forward too";
  }
  if (updates && !block.trainable) {
    return name + " updates block " + to_string(task.block) + ", which is not trainable";
  }
  return {};
}

Finding FormCheck::runs_on(const Task& task, const TaskSignatures& signatures) const {
  const Resource& resource = plan_.resources[task.resource];
  bool fits = false;
  switch (task.kind) {
    case TaskKind::load:
    case TaskKind::clip:
    case TaskKind::redo:
      fits = resource.kind == ResourceKind::host;
      break;
    case TaskKind::forward:
    case TaskKind::backward:
      fits = resource.kind == ResourceKind::compute;
      break;
    case TaskKind::copy:
      fits = resource.kind == ResourceKind::copy;
      break;
    case TaskKind::update:
      fits = resource.kind == ResourceKind::host ||
             (resource.kind == ResourceKind::compute && !signatures.updates_ahead(task.block) &&
              task.piece < 0);
      break;
    case TaskKind::work:
      break;
  }
  if (fits) return {};
  return misplaced(task, resource);
}

Finding FormCheck::copy(const Task& task) const {
  const std::string name = "task '" + task.name + "'";
  if (task.reads.size() != 1 || task.writes.size() != 1) {
    return name + " is a copy of " + std::to_string(task.reads.size()) + " instances to " +
           std::to_string(task.writes.size()) + "; expected one to one";
  }
  const InstanceId from = task.reads.front();
  const InstanceId to = task.writes.front();
  const auto names = [&] { return instance_name(plan_, from) + " to " + instance_name(plan_, to); };
  if (plan_.instances[from].value != plan_.instances[to].value) {
    return name + " copies " + names() + ", another value";
  }
  if (plan_.instances[from].place == plan_.instances[to].place) {
    return name + " copies " + names() + ", within one place";
  }
  if (task.bytes != value_of(from).bytes) {
    return name + " moves " + std::to_string(task.bytes.count) + " bytes of " +
           std::to_string(value_of(from).bytes.count);
  }
  return {};
}

// A task that may do nothing: only a copy of what an update has left in the step before, with
// clipping ahead of the norm.
Finding FormCheck::refreshes(const Task& task, const TaskSignatures& signatures) const {
  if (!task.refreshes) return {};
  const bool copies = task.kind == TaskKind::copy && !task.writes.empty();
  if (copies && value_of(task.writes.front()).kind == ValueKind::weight &&
      (!sum_waits(plan_, task.block) || signatures.updates_ahead(task.block))) {
    return {};
  }
  return "task '" + task.name + "' refreshes; expected a copy of weights" +
         (sum_waits(plan_, task.block) ? " that are updated ahead" : "");
}

Finding FormCheck::accesses(const Task& task, const FewIds<InstanceId>& instances,
                            const std::vector<Access>& known, const std::string& verb) const {
  // Marks which entries of the signature were found; most are short, and a clip's reads usually
  // stand in the signature's order, so the search begins behind the last hit. Whether a sum is
  // complete, and whose task may start it, is for the replay to say.
  std::vector<bool> found(known.size());
  std::size_t next = 0;
  for (const InstanceId id : instances) {
    const ValueKey key = key_of(value_of(id));
    std::size_t tried = 0;
    while (tried < known.size() && known[next].value != key) {
      next = next + 1 == known.size() ? 0 : next + 1;
      ++tried;
    }
    if (tried == known.size()) {
      return "task '" + task.name + "' may not " + verb + " " + key_name(key);
    }
    if (found[next]) return "task '" + task.name + "' may " + verb + " " + key_name(key) + " once";
    found[next] = true;
  }
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (known[i].when != When::always || found[i]) continue;
    return "task '" + task.name + "' does not " + verb + " " + key_name(known[i].value);
  }
  return {};
}

}  // namespace

std::optional<std::string> find_malformed(const Plan& plan) { return FormCheck(plan).find(); }

}  // namespace ferry
