#include "planner/mobius_plan.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "base/check.h"
#include "planner/allocate.h"
#include "planner/builder.h"

namespace ferry {
namespace {

std::size_t index(int id) { return static_cast<std::size_t>(id); }

constexpr Bytes kScalarSlot = 64_B;  // N, L: a cache line each
constexpr int kHostGradientTurns = 2;

// One device's memory: [region of weights and gradient sums][activations][tokens][scalars].
struct DeviceMemory {
  std::vector<Visit> visits;  // in order of execution
  SlotRing activations{{}, {}, 0};
  SlotRing tokens{{}, {}, 0};
  Bytes scalars_end;
};

class MobiusWriter {
 public:
  MobiusWriter(const PlanQuestion& question, const Chain& chain, const MobiusShape& shape)
      : question_(question),
        chain_(chain),
        shape_(shape),
        train_(question.mode == PlanMode::train),
        stages_(static_cast<int>(shape.ends.size())),
        devices_(static_cast<int>(shape.device_of_slot.size())),
        builder_(question, chain, "mobius", devices_),
        memory_(shape.device_of_slot.size()) {}

  Plan write() {
    for (int j = 0; j < stages_; ++j) {
      for (int b = first(j); b < end(j); ++b) builder_.set_stage(b, j);
    }
    host_end_ = builder_.lay_out_home(builder_.queues().host);
    plan_visits();
    for (int d = 0; d < devices_; ++d) lay_out_device(d);
    for (int m = 0; m < question_.micro_batches; ++m) builder_.load(m, host_tokens(m));
    for (int j = 0; j < stages_; ++j) forward_stage(j);
    if (train_) {
      for (int j = stages_ - 1; j >= 0; --j) backward_stage(j);
    }
    collect_and_update();
    builder_.settle(host_end_, kHostGradientTurns);
    return builder_.finish();
  }

 private:
  // ---- the chain and its stages ----

  int first(int stage) const { return stage == 0 ? 0 : shape_.ends[index(stage - 1)]; }
  int end(int stage) const { return shape_.ends[index(stage)]; }
  int blocks() const { return static_cast<int>(chain_.size()); }
  const ChainBlock& block(int b) const { return chain_.blocks[index(b)]; }
  bool is_head(int b) const { return b + 1 == blocks(); }
  int device_of(int stage) const { return shape_.device_of_slot[index(stage % devices_)]; }
  bool last_micro_batch(int m) const { return m + 1 == question_.micro_batches; }

  /// The last N stages stay on their devices between forward and backward.
  bool stays(int stage) const { return train_ && stage + devices_ >= stages_; }

  /// The tied head whose gradient the block's last backward adds to its own, or -1.
  int tied_head(int b) const {
    return blocks() > 1 && chain_.blocks.back().reads_weight == b ? blocks() - 1 : -1;
  }
  bool in_stage(int b, int stage) const { return b >= first(stage) && b < end(stage); }

  // ---- memory ----

  /// A host slot of its own, made on first use.
  InstanceId host_scalar(ValueKind kind, int b, int m) {
    const ValueId value = builder_.value(kind, b, m);
    const auto [at, fresh] = host_offsets_.try_emplace(value, host_end_);
    if (fresh) host_end_ += round_up(builder_.bytes(value), kScalarSlot);
    return builder_.instance(value, builder_.queues().host, at->second);
  }
  InstanceId host_tokens(int m) { return host_scalar(ValueKind::tokens, -1, m); }

  /// Checkpoints and boundary gradients; settle() gives them their slots.
  InstanceId host_activation(ValueId value) {
    return builder_.instance(value, builder_.queues().host, {});
  }

  void need(Visit& visit, ValueKind kind, int b) {
    const ValueId value = builder_.value(kind, b, -1);
    if (std::find(visit.values.begin(), visit.values.end(), value) != visit.values.end()) return;
    visit.values.push_back(value);
    visit.need += slot_size(builder_.bytes(value));
  }

  void need_for_forward(Visit& visit, int stage) {
    for (int b = first(stage); b < end(stage); ++b) {
      if (has_forward(block(b))) need(visit, ValueKind::weight, weight_owner(chain_, b));
    }
  }

  void need_for_backward(Visit& visit, int stage) {
    for (int b = end(stage) - 1; b >= first(stage); --b) {
      if (b > 0) need(visit, ValueKind::weight, weight_owner(chain_, b));
    }
    for (int b = end(stage) - 1; b >= first(stage); --b) {
      if (block(b).gradients > Bytes{}) need(visit, ValueKind::gradient, b);
      if (tied_head(b) >= 0) need(visit, ValueKind::gradient, tied_head(b));
    }
  }

  void plan_visits() {
    forward_visit_.resize(index(stages_));
    backward_visit_.resize(index(stages_));
    for (int j = 0; j < stages_; ++j) {
      auto& visits = memory_[index(device_of(j))].visits;
      forward_visit_[index(j)] = visits.size();
      visits.emplace_back();
      need_for_forward(visits.back(), j);
      if (stays(j)) {
        backward_visit_[index(j)] = visits.size() - 1;
        need_for_backward(visits.back(), j);
      }
    }
    if (!train_) return;
    for (int j = stages_ - 1; j >= 0; --j) {
      if (stays(j)) continue;
      auto& visits = memory_[index(device_of(j))].visits;
      backward_visit_[index(j)] = visits.size();
      visits.emplace_back();
      need_for_backward(visits.back(), j);
    }
  }

  Bytes workspace_of(int device) const {
    Bytes most;
    for (int j = 0; j < stages_; ++j) {
      if (device_of(j) != device) continue;
      for (int b = first(j); b < end(j); ++b) {
        if (has_forward(block(b))) most = std::max(most, block(b).forward_workspace);
        if (train_) most = std::max(most, block(b).backward_workspace);
      }
    }
    return most;
  }

  void lay_out_device(int d) {
    DeviceMemory& memory = memory_[index(d)];
    if (memory.visits.empty()) return;
    const bool tokens = device_of(0) == d || device_of(stages_ - 1) == d;
    const Bytes activation = slot_size(chain_.activation);
    const Bytes token = slot_size(chain_.tokens);
    const int token_slots = tokens ? shape_.token_slots : 0;
    const Bytes scalars = scalars_of(d);
    const Bytes rings = activation * shape_.activation_slots + token * token_slots;
    const Bytes left = device_limit(question_, d) - workspace_of(d) - rings - scalars;
    const RegionSizes sizes = region_sizes(memory.visits);
    const Bytes region =
        std::clamp(Bytes{left.count - left.count % kSlotAlignment.count}, sizes.least, sizes.full);
    lay_out_visits(memory.visits, builder_.values(), region);
    memory.activations = SlotRing(region, activation, shape_.activation_slots);
    memory.tokens = SlotRing(region + activation * shape_.activation_slots, token, token_slots);
    memory.scalars_end = region + rings;
  }

  /// Room for the norms and losses that arise on a device.
  Bytes scalars_of(int d) const {
    std::int64_t count = device_of(stages_ - 1) == d ? question_.micro_batches : 0;
    for (int j = 0; j < stages_; ++j) {
      if (device_of(j) == d) count += end(j) - first(j);
    }
    return kScalarSlot * count;
  }

  InstanceId device_scalar(int d, ValueKind kind, int b, int m) {
    Bytes& end_of_scalars = memory_[index(d)].scalars_end;
    const InstanceId made = builder_.instance(builder_.value(kind, b, m), place(d), end_of_scalars);
    end_of_scalars += kScalarSlot;
    return made;
  }

  // ---- instances on a device ----

  PlaceId place(int d) const { return builder_.device(d).place; }

  InstanceId in_visit(int d, std::size_t visit, ValueKind kind, int b) {
    const ValueId value = builder_.value(kind, b, -1);
    return builder_.instance(value, place(d), memory_[index(d)].visits[visit].offsets.at(value));
  }

  /// The value in its ring, brought there from the host unless it still is there.
  InstanceId fetch(int d, SlotRing& ring, ValueId value, InstanceId from,
                   std::span<const ValueId> kept) {
    if (const auto offset = ring.find(value)) return builder_.instance(value, place(d), *offset);
    const InstanceId to = builder_.instance(value, place(d), ring.take(value, kept));
    builder_.copy(builder_.device(d).acts_up, from, to);
    return to;
  }

  InstanceId fetch_tokens(int d, int m) {
    return fetch(d, memory_[index(d)].tokens, builder_.value(ValueKind::tokens, -1, m),
                 host_tokens(m), {});
  }

  InstanceId fetch_activation(int d, ValueId value, std::span<const ValueId> kept) {
    return fetch(d, memory_[index(d)].activations, value, host_activation(value), kept);
  }

  InstanceId new_activation(int d, ValueId value, std::span<const ValueId> kept) {
    const Bytes offset = memory_[index(d)].activations.take(value, kept);
    return builder_.instance(value, place(d), offset);
  }

  // ---- forward ----

  void forward_stage(int j) {
    const int d = device_of(j);
    const std::size_t visit = forward_visit_[index(j)];
    Visit loads;
    need_for_forward(loads, j);
    upload(d, visit, loads);
    for (int m = 0; m < question_.micro_batches; ++m) {
      for (int b = first(j); b < end(j); ++b) {
        if (has_forward(block(b))) forward(b, m, d, visit);
      }
    }
  }

  /// Uploads weights, and a tied head's gradient sum, in the order of need.
  void upload(int d, std::size_t visit, const Visit& loads) {
    for (const ValueId value : loads.values) {
      const Value& held = builder_.values()[index(value)];
      const InstanceId from = held.kind == ValueKind::weight
                                  ? builder_.home(ValueKind::weight, held.block)
                                  : host_scalar(held.kind, held.block, -1);
      builder_.copy(builder_.device(d).weights_up, from, in_visit(d, visit, held.kind, held.block));
    }
  }

  void forward(int b, int m, int d, std::size_t visit) {
    const ValueId input = builder_.value(ValueKind::activation, b, m);
    std::vector<InstanceId> reads = {in_visit(d, visit, ValueKind::weight, weight_owner(chain_, b)),
                                     b == 0 ? fetch_tokens(d, m) : fetch_activation(d, input, {})};
    if (is_head(b)) {  // evaluation
      reads.push_back(fetch_tokens(d, m));
      const InstanceId loss = device_scalar(d, ValueKind::loss, -1, m);
      builder_.forward(b, m, d, std::move(reads), loss);
      losses_.push_back(host_scalar(ValueKind::loss, -1, m));
      builder_.copy(builder_.device(d).down, loss, losses_.back());
      return;
    }
    const ValueId output = builder_.value(ValueKind::activation, b + 1, m);
    const InstanceId made = new_activation(d, output, std::array{input});
    builder_.forward(b, m, d, std::move(reads), made);
    builder_.copy(builder_.device(d).down, made, host_activation(output));
  }

  // ---- backward ----

  void backward_stage(int j) {
    const int d = device_of(j);
    const std::size_t visit = backward_visit_[index(j)];
    upload(d, visit, backward_loads(j));
    std::vector<InstanceId> norms;
    for (int m = 0; m < question_.micro_batches; ++m) {
      InstanceId loss = -1;
      for (int b = end(j) - 1; b >= first(j); --b) {
        if (is_head(b)) loss = device_scalar(d, ValueKind::loss, -1, m);
        backward(b, m, visit, {loss, last_micro_batch(m) ? &norms : nullptr});
      }
      // What the next stage waits for leaves before anything else.
      if (first(j) > 0) {
        const ValueId passed = builder_.value(ValueKind::activation_gradient, first(j), m);
        const InstanceId from = fetch_activation(d, passed, {});
        builder_.copy(builder_.device(d).down, from, host_activation(passed));
      }
      if (loss >= 0) {
        losses_.push_back(host_scalar(ValueKind::loss, -1, m));
        builder_.copy(builder_.device(d).down, loss, losses_.back());
      }
    }
    download_sums(j, visit, norms);
  }

  Visit backward_loads(int j) {
    Visit all;
    Visit there;
    need_for_backward(all, j);
    if (stays(j)) need_for_forward(there, j);
    Visit loads;
    for (const ValueId value : all.values) {
      const Value& held = builder_.values()[index(value)];
      const bool comes_from_host =
          held.kind == ValueKind::weight || !in_stage(held.block, j);  // a tied head's sum
      const bool is_there =
          std::find(there.values.begin(), there.values.end(), value) != there.values.end();
      if (comes_from_host && !is_there) loads.values.push_back(value);
    }
    return loads;
  }

  struct BackwardResults {
    InstanceId loss = -1;                      // of the head
    std::vector<InstanceId>* norms = nullptr;  // with the last micro-batch
  };

  void backward(int b, int m, std::size_t visit, const BackwardResults& results) {
    const int d = device_of(stage_of(b));
    const ValueId input = builder_.value(ValueKind::activation, b, m);
    const ValueId above =  // the head has nothing above it
        is_head(b) ? input : builder_.value(ValueKind::activation_gradient, b + 1, m);
    const ValueId below = builder_.value(ValueKind::activation_gradient, b, m);
    const InstanceId sum = in_visit(d, visit, ValueKind::gradient, b);
    std::vector<InstanceId> reads;
    std::vector<InstanceId> writes = {sum};
    if (b > 0) reads.push_back(in_visit(d, visit, ValueKind::weight, weight_owner(chain_, b)));
    // The gradient of the output first: within a stage it is still in its slot.
    const InstanceId output_gradient =
        is_head(b) ? fetch_tokens(d, m) : fetch_activation(d, above, std::array{input});
    reads.push_back(b == 0 ? fetch_tokens(d, m) : fetch_activation(d, input, std::array{above}));
    reads.push_back(output_gradient);
    if (m > 0) reads.push_back(sum);
    if (b > 0) writes.push_back(new_activation(d, below, std::array{input, above}));
    if (is_head(b)) writes.push_back(results.loss);
    if (results.norms != nullptr) {
      if (tied_head(b) >= 0) {
        reads.push_back(in_visit(d, visit, ValueKind::gradient, tied_head(b)));
      }
      if (block(b).trainable) {
        results.norms->push_back(device_scalar(d, ValueKind::norm, b, -1));
        writes.push_back(results.norms->back());
      }
    }
    builder_.backward(b, m, d, std::move(reads), std::move(writes));
  }

  int stage_of(int b) const {
    const auto found = std::upper_bound(shape_.ends.begin(), shape_.ends.end(), b);
    return static_cast<int>(found - shape_.ends.begin());
  }

  /// Norms first, since clipping waits for all of them, then the sums, deepest block first.
  void download_sums(int j, std::size_t visit, const std::vector<InstanceId>& norms) {
    const int d = device_of(j);
    auto norm = norms.begin();
    for (int b = end(j) - 1; b >= first(j); --b) {
      if (!block(b).trainable) continue;
      norms_.push_back(host_scalar(ValueKind::norm, b, -1));
      builder_.copy(builder_.device(d).down, *norm++, norms_.back());
    }
    for (int b = end(j) - 1; b >= first(j); --b) {
      const int owner = block(b).reads_weight;
      const bool wanted = block(b).trainable || (owner >= 0 && !in_stage(owner, j));
      if (!wanted) continue;
      const InstanceId landed = host_scalar(ValueKind::gradient, b, -1);
      builder_.copy(builder_.device(d).down, in_visit(d, visit, ValueKind::gradient, b), landed);
      if (!block(b).trainable) continue;
      landed_.push_back(b);
      if (!question_.clips) builder_.update(b, builder_.queues().update, {landed});
    }
  }

  /// The step's loss and norm; with clipping, the updates that waited for it.
  void collect_and_update() {
    const bool clips = train_ && question_.clips;
    std::vector<InstanceId> reads = norms_;
    reads.insert(reads.end(), losses_.begin(), losses_.end());
    const InstanceId scale = clips ? host_scalar(ValueKind::clip, -1, -1) : -1;
    builder_.clip(std::move(reads), scale);
    if (!clips) return;
    std::vector<int> order = landed_;
    if (!shape_.updates_as_landed) std::sort(order.begin(), order.end());
    for (const int b : order) {
      builder_.update(b, builder_.queues().update,
                      {host_scalar(ValueKind::gradient, b, -1), scale});
    }
  }

  const PlanQuestion& question_;
  const Chain& chain_;
  const MobiusShape& shape_;
  const bool train_;
  const int stages_;
  const int devices_;
  PlanBuilder builder_;
  std::vector<DeviceMemory> memory_;
  std::vector<std::size_t> forward_visit_;   // per stage, in its device's visits
  std::vector<std::size_t> backward_visit_;  // the same visit for a stage that stays
  std::map<ValueId, Bytes> host_offsets_;
  Bytes host_end_;
  std::vector<int> landed_;         // trainable blocks in the order of their sums' copies
  std::vector<InstanceId> norms_;   // on the host
  std::vector<InstanceId> losses_;  // on the host
};

}  // namespace

Plan write_mobius_plan(const PlanQuestion& question, const Chain& chain, const MobiusShape& shape) {
  FERRY_CHECK(shape.activation_slots >= kLeastActivationSlots, "activation slots of a device");
  return MobiusWriter(question, chain, shape).write();
}

}  // namespace ferry
