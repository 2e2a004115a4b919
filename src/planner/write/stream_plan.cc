#include "planner/write/stream_plan.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <utility>

#include "base/check.h"
#include "planner/write/allocate.h"
#include "planner/write/builder.h"
#include "planner/write/host_store.h"
#include "planner/write/slot_pool.h"

namespace ferry {
namespace {

constexpr Bytes kScalarSlot = 64_B;  // N, L: a cache line each
constexpr int kHostGradientTurns = 2;

// How backwards list what they read and write.
constexpr std::array kBackwardOrder = {
    Part::weight,          Part::tied_weight, Part::input,    Part::tokens,
    Part::output_gradient, Part::saved,       Part::gradient, Part::tied_gradient,
    Part::input_gradient,  Part::loss,        Part::norm};

bool runs_on(const StreamSchedule& schedule, int device, int b) {
  return std::ranges::any_of(schedule.visits, [&](const StageVisit& visit) {
    return visit.device == device && b >= visit.first && b < visit.end;
  });
}

// A slot for any of what leaves the device between forward and backward.
Bytes largest_leaving(const Chain& chain, const StreamSchedule& schedule, int device) {
  Bytes largest;
  for (const BlockId b : chain.blocks.ids()) {
    const ActivationPolicy policy = policy_of(schedule.policies, b);
    if (policy == ActivationPolicy::recompute || policy == ActivationPolicy::keep) continue;
    if (runs_on(schedule, device, b)) largest = std::max(largest, chain.blocks[b].saved);
  }
  return slot_size(largest);
}

// One device's memory: [region of weights and gradient sums][activations][tokens][what stays]
// [what leaves][scalars].
struct DeviceMemory {
  std::vector<VisitMemory> visits;  // in order of execution
  SlotRing activations{{}, {}, 0};
  SlotRing tokens{{}, {}, 0};
  std::map<BlockId, SlotPool> kept;
  std::map<ValueId, Bytes> held;  // what forward kept here and backward has not read yet
  SlotRing saved{{}, {}, 0};      // what forward kept and rests elsewhere
  Bytes scalars_end;
};

class StreamWriter {
 public:
  StreamWriter(const PlanQuestion& question, const Chain& chain, const StreamSchedule& schedule)
      : question_(question),
        chain_(chain),
        schedule_(schedule),
        train_(question.mode == PlanMode::train),
        builder_(question, chain, schedule.strategy, {kBackwardOrder, {}}, schedule.devices,
                 schedule.uses_drives()),
        store_(builder_, chain, schedule),
        memory_(schedule.devices),
        kept_slots_(kept_slots(chain, schedule)) {}

  Plan write() {
    set_stages();
    plan_visits();
    for (int d = 0; d < schedule_.devices; ++d) lay_out_device(d);
    for (int m = 0; m < question_.micro_batches; ++m) builder_.load(m, store_.tokens(m));
    for (std::size_t v = 0; v < schedule_.visits.size(); ++v) run(v);
    collect_and_update();
    builder_.settle(store_.end(), kHostGradientTurns);
    return builder_.finish_unordered();
  }

 private:
  // ---- the chain and its visits ----

  int blocks() const { return static_cast<int>(chain_.size()); }
  const ChainBlock& block(int b) const { return chain_.blocks[b]; }
  bool is_head(int b) const { return b + 1 == blocks(); }
  bool completes_sums(const StageVisit& visit) const {
    return visit.end_batch == question_.micro_batches;
  }

  /// The tied head whose gradient the block's last backward adds to its own, or -1.
  int tied_head(int b) const {
    return blocks() > 1 && chain_.blocks.back().reads_weight == b ? blocks() - 1 : -1;
  }
  static bool contains(const StageVisit& visit, int b) { return b >= visit.first && b < visit.end; }

  /// The pass that decides which blocks run as one: gradients pass between its stages.
  bool counts_stages(const StageVisit& visit) const {
    return visit.first_batch == 0 && (visit.direction != Direction::forward || !train_);
  }

  void set_stages() {
    std::vector<bool> begins(chain_.size(), false);
    for (const StageVisit& visit : schedule_.visits) {
      if (counts_stages(visit)) begins[visit.first] = true;
    }
    int stage = -1;
    for (int b = 0; b < blocks(); ++b) {
      if (begins[b]) ++stage;
      builder_.set_stage(b, stage);
    }
  }

  // ---- memory ----

  void need(VisitMemory& visit, ValueKind kind, int b) {
    const ValueId value = builder_.value(kind, b, -1);
    if (std::find(visit.values.begin(), visit.values.end(), value) != visit.values.end()) return;
    visit.values.push_back(value);
    visit.need += slot_size(builder_.bytes(value));
  }

  void need_for_forward(VisitMemory& memory, const StageVisit& visit) {
    for (int b = visit.first; b < visit.end; ++b) {
      if (has_forward(block(b))) need(memory, ValueKind::weight, weight_owner(chain_, b));
    }
  }

  void need_for_backward(VisitMemory& memory, const StageVisit& visit) {
    for (int b = visit.end - 1; b >= visit.first; --b) {
      if (b > 0) need(memory, ValueKind::weight, weight_owner(chain_, b));
    }
    for (int b = visit.end - 1; b >= visit.first; --b) {
      if (block(b).gradients > Bytes{}) need(memory, ValueKind::gradient, b);
      if (tied_head(b) >= 0 && completes_sums(visit)) {
        need(memory, ValueKind::gradient, tied_head(b));
      }
    }
  }

  void need_for(VisitMemory& memory, const StageVisit& visit) {
    if (visit.direction != Direction::backward) need_for_forward(memory, visit);
    if (visit.direction != Direction::forward) need_for_backward(memory, visit);
  }

  /// A stage whose backward follows its forward on the device stays there between the two.
  void plan_visits() {
    std::vector<const StageVisit*> latest(schedule_.devices, nullptr);
    for (const StageVisit& visit : schedule_.visits) {
      auto& visits = memory_[visit.device].visits;
      const StageVisit* before = std::exchange(latest[visit.device], &visit);
      stays_.push_back(before != nullptr && before->direction == Direction::forward &&
                       visit.direction == Direction::backward && before->first == visit.first &&
                       before->end == visit.end);
      if (!stays_.back()) visits.emplace_back();
      memory_visit_.push_back(visits.size() - 1);
      need_for(visits.back(), visit);
    }
  }

  Bytes workspace_of(int device) const {
    Bytes most;
    for (const StageVisit& visit : schedule_.visits) {
      if (visit.device != device) continue;
      for (int b = visit.first; b < visit.end; ++b) {
        if (visit.direction != Direction::backward && has_forward(block(b))) {
          most = std::max(most, forward_workspace(block(b), saves(schedule_.policies, b)));
        }
        if (visit.direction != Direction::forward)
          most = std::max(most, block(b).backward_workspace);
      }
    }
    return most;
  }

  void lay_out_device(int d) {
    DeviceMemory& memory = memory_[d];
    if (memory.visits.empty()) return;
    const Bytes activation = slot_size(chain_.activation);
    const Bytes token = slot_size(chain_.tokens);
    const int token_slots = needs_tokens(d) ? schedule_.token_slots : 0;
    const Bytes scalars = slot_size(scalars_of(d));
    const Bytes rings = activation * schedule_.activation_slots + token * token_slots;
    const Bytes saved = saved_bytes(chain_, schedule_, kept_slots_, d);
    // Whole slots, since a workspace begins where a slot could.
    const Bytes left =
        device_limit(question_, d) - slot_size(workspace_of(d)) - rings - saved - scalars;
    const RegionSizes sizes = region_sizes(memory.visits);
    const Bytes region = std::clamp(left, sizes.least, sizes.full);
    lay_out_visits(memory.visits, builder_.values(), region);
    memory.activations = SlotRing(region, activation, schedule_.activation_slots);
    memory.tokens = SlotRing(region + activation * schedule_.activation_slots, token, token_slots);
    lay_out_saved(d, region + rings);
    memory.scalars_end = region + rings + saved;
  }

  /// Slots of its own for what stays, then the ring of what leaves.
  void lay_out_saved(int d, Bytes end) {
    DeviceMemory& memory = memory_[d];
    for (int b = 0; b < blocks(); ++b) {
      if (!rests_here(b) || !runs_on(schedule_, d, b)) continue;
      const Bytes slot = slot_size(block(b).saved);
      memory.kept.emplace(b, SlotPool(end, slot, 0));
      end += slot * kept_slots_[b];
    }
    memory.saved = SlotRing(end, largest_leaving(chain_, schedule_, d), schedule_.saved_slots);
  }

  /// What the block's forward keeps stays on the device.
  bool rests_here(int b) const {
    return policy_of(schedule_.policies, b) == ActivationPolicy::keep;
  }

  bool needs_tokens(int d) const {
    return std::any_of(
        schedule_.visits.begin(), schedule_.visits.end(), [&](const StageVisit& visit) {
          return visit.device == d && (contains(visit, 0) || contains(visit, blocks() - 1));
        });
  }

  /// Room for the norms and losses that arise on a device.
  Bytes scalars_of(int d) const {
    std::int64_t count = 0;
    for (const StageVisit& visit : schedule_.visits) {
      if (visit.device != d) continue;
      const bool ends = visit.direction != Direction::forward || !train_;
      if (ends && contains(visit, blocks() - 1)) count += visit.end_batch - visit.first_batch;
      if (visit.direction != Direction::forward && completes_sums(visit))
        count += visit.end - visit.first;
    }
    return kScalarSlot * count;
  }

  InstanceId device_scalar(int d, ValueKind kind, BlockId b, int m) {
    Bytes& end_of_scalars = memory_[d].scalars_end;
    const InstanceId made = builder_.instance(builder_.value(kind, b, m), place(d), end_of_scalars);
    end_of_scalars += kScalarSlot;
    return made;
  }

  // ---- instances on a device ----

  PlaceId place(int d) const { return builder_.device(d).place; }

  InstanceId in_visit(std::size_t v, ValueKind kind, int b) {
    const int d = schedule_.visits[v].device;
    const VisitMemory& memory = memory_[d].visits[memory_visit_[v]];
    const ValueId value = builder_.value(kind, b, -1);
    return builder_.instance(value, place(d), memory.offsets.at(value));
  }

  InstanceId fetch_tokens(int d, int m) {
    SlotRing& ring = memory_[d].tokens;
    const ValueId value = builder_.value(ValueKind::tokens, -1, m);
    if (const auto offset = ring.find(value)) return builder_.instance(value, place(d), *offset);
    const InstanceId to = builder_.instance(value, place(d), ring.take(value, {}));
    builder_.copy(builder_.device(d).acts_up, store_.tokens(m), to);
    return to;
  }

  /// The value in the ring, brought there from the host unless it still is there.
  InstanceId fetch_activation(int d, ValueId value, std::span<const ValueId> kept) {
    SlotRing& ring = memory_[d].activations;
    if (const auto offset = ring.find(value)) return builder_.instance(value, place(d), *offset);
    const InstanceId from = store_.activation(value);
    const InstanceId to = builder_.instance(value, place(d), ring.take(value, kept));
    builder_.copy(builder_.device(d).acts_up, from, to);
    return to;
  }

  InstanceId new_activation(int d, ValueId value, std::span<const ValueId> kept) {
    const Bytes offset = memory_[d].activations.take(value, kept);
    return builder_.instance(value, place(d), offset);
  }

  /// Where forward writes what it keeps.
  InstanceId new_saved(int d, int b, int m) {
    DeviceMemory& memory = memory_[d];
    const ValueId value = builder_.value(ValueKind::saved, b, m);
    const Bytes offset = rests_here(b) ? memory.kept.at(b).take() : memory.saved.take(value, {});
    if (rests_here(b)) memory.held[value] = offset;
    return builder_.instance(value, place(d), offset);
  }

  /// Where backward finds it.
  InstanceId fetch_saved(int d, int b, int m) {
    DeviceMemory& memory = memory_[d];
    const ValueId value = builder_.value(ValueKind::saved, b, m);
    if (rests_here(b)) {
      const Bytes offset = memory.held.at(value);
      memory.kept.at(b).give_back(offset);
      return builder_.instance(value, place(d), offset);
    }
    if (const auto offset = memory.saved.find(value)) {
      return builder_.instance(value, place(d), *offset);
    }
    const InstanceId to = builder_.instance(value, place(d), memory.saved.take(value, {}));
    builder_.copy(builder_.device(d).acts_up, store_.activation(value), to);
    return to;
  }

  void bring_down(int d, InstanceId from, ValueId value) {
    builder_.copy(builder_.device(d).down, from, store_.land_activation(value));
    store_.activation_landed(value);
  }

  void bring_loss_down(int d, InstanceId loss, int m) {
    losses_[m] = store_.scalar(ValueKind::loss, {}, m);
    builder_.copy(builder_.device(d).down, loss, losses_[m]);
  }

  // ---- visits ----

  void run(std::size_t v) {
    const StageVisit& visit = schedule_.visits[v];
    upload(v);
    std::vector<InstanceId> norms;
    for (int m = visit.first_batch; m < visit.end_batch; ++m) {
      if (visit.direction != Direction::backward) {
        for (int b = visit.first; b < visit.end; ++b) {
          if (has_forward(block(b))) forward(b, m, v);
        }
      }
      if (visit.direction != Direction::forward) backward_through(v, m, norms);
    }
    if (visit.direction != Direction::forward) download_sums(v, norms);
  }

  /// Uploads what is not there yet, in the order of need.
  void upload(std::size_t v) {
    const StageVisit& visit = schedule_.visits[v];
    const ResourceId queue = builder_.device(visit.device).weights_up;
    VisitMemory all;
    VisitMemory there;
    need_for(all, visit);
    if (stays_[v]) need_for_forward(there, visit);
    for (const ValueId value : all.values) {
      if (std::find(there.values.begin(), there.values.end(), value) != there.values.end())
        continue;
      const Value held = builder_.values()[value];
      if (held.kind == ValueKind::weight) {
        builder_.copy(queue, store_.weight(held.block), in_visit(v, held.kind, held.block));
        continue;
      }
      // A sum that an earlier visit began, or a tied head's from another stage.
      if (visit.first_batch == 0 && contains(visit, held.block)) continue;
      builder_.copy(queue, store_.gradient(held.block), in_visit(v, held.kind, held.block));
    }
  }

  /// Where a task of the visit finds weights, gradient sums and tokens.
  InstanceId of_visit(std::size_t v, const ValueKey& wanted) {
    if (wanted.kind == ValueKind::tokens) {
      return fetch_tokens(schedule_.visits[v].device, wanted.micro_batch);
    }
    return in_visit(v, wanted.kind, wanted.block);
  }

  void forward(int b, int m, std::size_t v) {
    const int d = schedule_.visits[v].device;
    const ValueId input = builder_.value(ValueKind::activation, b, m);
    const ValueId output = builder_.value(ValueKind::activation, b + 1, m);
    InstanceId made, saved, loss;
    builder_.forward(b, m, d, saves(schedule_.policies, b), [&](const Access& access, bool) {
      switch (access.part) {
        case Part::input:
          return fetch_activation(d, input, {});
        case Part::output:
          return made = new_activation(d, output, std::array{input});
        case Part::saved:
          return saved = new_saved(d, b, m);
        case Part::loss:
          return loss = device_scalar(d, ValueKind::loss, {}, m);
        default:
          return of_visit(v, access.value);
      }
    });
    if (loss.valid()) bring_loss_down(d, loss, m);
    if (made.valid()) bring_down(d, made, output);  // what the next stage waits for
    if (saved.valid() && !rests_here(b))
      bring_down(d, saved, builder_.value(ValueKind::saved, b, m));
  }

  void backward_through(std::size_t v, int m, std::vector<InstanceId>& norms) {
    const StageVisit& visit = schedule_.visits[v];
    const int d = visit.device;
    InstanceId loss;
    for (int b = visit.end - 1; b >= visit.first; --b) {
      if (is_head(b)) loss = device_scalar(d, ValueKind::loss, -1, m);
      backward(b, m, v, {loss, norms});
    }
    // What the next stage waits for leaves before anything else.
    if (visit.first > 0) {
      const ValueId passed = builder_.value(ValueKind::activation_gradient, visit.first, m);
      bring_down(d, fetch_activation(d, passed, {}), passed);
    }
    if (loss >= 0) bring_loss_down(d, loss, m);
  }

  struct BackwardResults {
    InstanceId loss;                 // of the head
    std::vector<InstanceId>& norms;  // of the last micro-batch
  };

  void backward(int b, int m, std::size_t v, const BackwardResults& results) {
    const int d = schedule_.visits[v].device;
    const ValueId input = builder_.value(ValueKind::activation, b, m);
    const ValueId above =  // the head has nothing above it
        is_head(b) ? input : builder_.value(ValueKind::activation_gradient, b + 1, m);
    const ValueId below = builder_.value(ValueKind::activation_gradient, b, m);
    in_visit(v, ValueKind::gradient, b);  // made first: files list instances in that order
    // The gradient of the output first: within a stage it is still in its slot.
    const InstanceId from_above =
        is_head(b) ? fetch_tokens(d, m) : fetch_activation(d, above, std::array{input});
    builder_.backward(b, m, d, saves(schedule_.policies, b), [&](const Access& access, bool) {
      switch (access.part) {
        case Part::output_gradient:
          return from_above;
        case Part::tokens:
          return is_head(b) ? from_above : fetch_tokens(d, m);
        case Part::input:
          return fetch_activation(d, input, std::array{above});
        case Part::saved:
          return fetch_saved(d, b, m);
        case Part::input_gradient:
          return new_activation(d, below, std::array{input, above});
        case Part::loss:
          return results.loss;
        case Part::norm:
          results.norms.push_back(device_scalar(d, ValueKind::norm, b, -1));
          return results.norms.back();
        default:
          return of_visit(v, access.value);
      }
    });
  }

  bool updates_wait() const { return question_.clips || schedule_.updates_at_end; }

  /// Norms first, since clipping waits for all of them, then the sums, deepest block first.
  void download_sums(std::size_t v, const std::vector<InstanceId>& norms) {
    const StageVisit& visit = schedule_.visits[v];
    const ResourceId queue = builder_.device(visit.device).down;
    const bool complete = completes_sums(visit);
    auto norm = norms.begin();
    for (int b = visit.end - 1; b >= visit.first && complete; --b) {
      if (!block(b).trainable) continue;
      norms_[b] = store_.scalar(ValueKind::norm, b, -1);
      builder_.copy(queue, *norm++, norms_[b]);
    }
    for (int b = visit.end - 1; b >= visit.first; --b) {
      const int owner = block(b).reads_weight;
      const bool goes_on =
          block(b).gradients > Bytes{} && (!complete || (owner >= 0 && !contains(visit, owner)));
      if (!block(b).trainable && !goes_on) continue;
      builder_.copy(queue, in_visit(v, ValueKind::gradient, b), store_.land_gradient(b));
      store_.gradient_landed(b, goes_on || updates_wait());
      if (!complete || !block(b).trainable) continue;
      landed_.push_back(b);
      if (!updates_wait()) store_.update(b, {});
    }
  }

  /// The step's loss and norm, and the updates that waited for it.
  void collect_and_update() {
    const bool scales = train_ && question_.clips;
    const InstanceId scale = scales ? store_.scalar(ValueKind::clip, {}, -1) : InstanceId();
    builder_.clip([&](const Access& access, bool) {
      if (access.part == Part::norm) return norms_.at(access.value.block);
      return access.part == Part::loss ? losses_.at(access.value.micro_batch) : scale;
    });
    if (!train_ || !updates_wait()) return;
    std::vector<int> order = landed_;
    if (!schedule_.updates_as_landed) std::sort(order.begin(), order.end());
    for (const int b : order) store_.update(b, scale);
  }

  const PlanQuestion& question_;
  const Chain& chain_;
  const StreamSchedule& schedule_;
  const bool train_;
  PlanBuilder builder_;
  HostStore store_;
  std::vector<DeviceMemory> memory_;
  const KeptSlots kept_slots_;             // by block
  std::vector<std::size_t> memory_visit_;  // per visit of the schedule, in its device's visits
  std::vector<bool> stays_;                // per visit: what its forward used is still there
  std::vector<int> landed_;                // trainable blocks in the order of their sums' copies
  std::map<BlockId, InstanceId> norms_;    // on the host
  std::map<int, InstanceId> losses_;       // likewise, by micro-batch
};

}  // namespace

Plan write_stream_plan(const PlanQuestion& question, const Chain& chain,
                       const StreamSchedule& schedule) {
  FERRY_CHECK(schedule.activation_slots >= kLeastActivationSlots, "activation slots of a device");
  return StreamWriter(question, chain, schedule).write();
}

KeptSlots kept_slots(const Chain& chain, const StreamSchedule& schedule) {
  std::map<std::pair<int, int>, int> forward_on;  // block, micro-batch -> device
  std::vector<KeptSlots> held(schedule.devices, KeptSlots(chain.size()));
  IdVector<BlockId, bool> may_stay(chain.size(), true);
  KeptSlots most(chain.size());
  for (const StageVisit& visit : schedule.visits) {
    const int batches = visit.end_batch - visit.first_batch;
    for (int b = visit.first; b < visit.end; ++b) {
      int& now = held[visit.device][b];
      if (visit.direction != Direction::backward) {
        const int more = visit.direction == Direction::fused ? 1 : batches;
        most[b] = std::max(most[b], now + more);
      }
      if (visit.direction == Direction::fused) continue;
      now += visit.direction == Direction::forward ? batches : -batches;
      for (int m = visit.first_batch; m < visit.end_batch; ++m) {
        if (visit.direction == Direction::forward) forward_on[{b, m}] = visit.device;
        if (visit.direction == Direction::backward && forward_on[{b, m}] != visit.device) {
          may_stay[b] = false;
        }
      }
    }
  }
  for (const BlockId b : chain.blocks.ids()) {
    if (!may_stay[b]) most[b] = 0;
  }
  return most;
}

Bytes saved_bytes(const Chain& chain, const StreamSchedule& schedule, const KeptSlots& slots,
                  int device) {
  Bytes bytes = largest_leaving(chain, schedule, device) * schedule.saved_slots;
  for (const BlockId b : chain.blocks.ids()) {
    if (policy_of(schedule.policies, b) != ActivationPolicy::keep || !runs_on(schedule, device, b))
      continue;
    bytes += slot_size(chain.blocks[b].saved) * slots[b];
  }
  return bytes;
}

}  // namespace ferry
