#include "planner/write/pipeline_plan.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

#include "base/check.h"
#include "planner/write/allocate.h"
#include "planner/write/builder.h"
#include "planner/write/slot_pool.h"

namespace ferry {
namespace {

// The order in which backwards fetch what they read.
constexpr std::array kBackwardOrder = {Part::weight,   Part::tied_weight,   Part::output_gradient,
                                       Part::tokens,   Part::input,         Part::saved,
                                       Part::gradient, Part::tied_gradient, Part::norm,
                                       Part::loss,     Part::input_gradient};

// One device's memory: [homes][gradient sums][a tied weight's copy][scalars][tokens]
// [what forward kept][activations].
struct DeviceMemory {
  std::map<BlockId, InstanceId> gradients;
  InstanceId shared_weight;  // at the tied head: the other block's W
  Bytes scalars_end;
  SlotPool tokens{{}, {}, 0};
  std::map<BlockId, SlotPool> kept;
  SlotPool activations{{}, {}, 0};
  std::map<ValueId, Bytes> held;  // values of these three pools, in their slots
};

class PipelineWriter {
 public:
  PipelineWriter(const PlanQuestion& question, const Chain& chain, const PipelineSchedule& schedule,
                 const std::string& strategy)
      : question_(question),
        chain_(chain),
        schedule_(schedule),
        train_(question.mode == PlanMode::train),
        stages_(static_cast<int>(schedule.ends.size())),
        devices_(1 + *std::max_element(schedule.device_of_stage.begin(),
                                       schedule.device_of_stage.end())),
        builder_(question, chain, strategy, {kBackwardOrder, {}}, devices_),
        memory_(devices_),
        runs_left_(devices_),
        kept_slots_(kept_slots(schedule)) {}

  Plan write() {
    for (int s = 0; s < stages_; ++s) {
      for (int b = first(s); b < end(s); ++b) builder_.set_stage(b, s);
    }
    const auto homes =
        builder_.lay_out_homes([&](ValueKind, BlockId b) { return place(device_of_block(b)); });
    lay_out_host();
    for (int d = 0; d < devices_; ++d) lay_out_device(d, homes);
    for (int m = 0; m < question_.micro_batches; ++m) builder_.load(m, host_tokens_[m]);
    if (has_remote_tie()) share_weight();
    for (const PipelineTask& run : schedule_.order) {
      if (takes_part(run)) ++runs_left_[device_of(run.stage)];
    }
    for (const PipelineTask& run : schedule_.order) {
      if (takes_part(run)) write_run(run);
    }
    collect_and_update();
    builder_.settle({}, 1);
    return builder_.finish();
  }

 private:
  // ---- the chain, its stages and their devices ----

  int first(int stage) const { return stage == 0 ? 0 : schedule_.ends[stage - 1]; }
  int end(int stage) const { return schedule_.ends[stage]; }
  int blocks() const { return static_cast<int>(chain_.size()); }
  int head() const { return blocks() - 1; }
  const ChainBlock& block(int b) const { return chain_.blocks[b]; }
  int device_of(int stage) const { return schedule_.device_of_stage[stage]; }
  bool last_micro_batch(int m) const { return m + 1 == question_.micro_batches; }
  bool takes_part(const PipelineTask& run) const { return train_ || !run.backward; }

  int device_of_block(int b) const {
    const auto stage = std::upper_bound(schedule_.ends.begin(), schedule_.ends.end(), b);
    return device_of(static_cast<int>(stage - schedule_.ends.begin()));
  }
  std::vector<int> blocks_of(int d) const {
    std::vector<int> result;
    for (int b = 0; b < blocks(); ++b) {
      if (device_of_block(b) == d) result.push_back(b);
    }
    return result;
  }

  /// The block whose weights the tied head reads, or -1.
  int tied_block() const { return block(head()).reads_weight; }
  bool has_remote_tie() const {
    return tied_block() >= 0 && device_of_block(tied_block()) != device_of_block(head());
  }

  // ---- memory ----

  PlaceId place(int d) const { return builder_.device(d).place; }
  PlaceId host() const { return builder_.queues().host; }

  InstanceId at_end(PlaceId place, Bytes& end, ValueKind kind, BlockId b, int m, Bytes alignment) {
    const ValueId value = builder_.value(kind, b, m);
    const InstanceId made = builder_.instance(value, place, end);
    end += round_up(builder_.bytes(value), alignment);
    return made;
  }
  InstanceId on_host(ValueKind kind, BlockId b, int m) {
    return at_end(host(), host_end_, kind, b, m, kScalarSlot);
  }
  InstanceId scalar(int d, ValueKind kind, BlockId b, int m) {
    return at_end(place(d), memory_[d].scalars_end, kind, b, m, kScalarSlot);
  }

  // Everything of which the host has one instance each; then the slots of what crosses it.
  void lay_out_host() {
    for (int m = 0; m < question_.micro_batches; ++m) {
      host_tokens_.push_back(on_host(ValueKind::tokens, -1, m));
      losses_.push_back(on_host(ValueKind::loss, -1, m));
    }
    if (has_remote_tie()) host_weight_ = on_host(ValueKind::weight, tied_block(), -1);
    if (train_) {
      if (has_remote_tie()) host_sum_ = on_host(ValueKind::gradient, head(), -1);
      for (int b = 0; b < blocks(); ++b) {
        if (block(b).trainable) norms_[b] = on_host(ValueKind::norm, b, -1);
      }
      if (question_.clips) scale_ = on_host(ValueKind::clip, -1, -1);
    }
    const Bytes first = round_up(host_end_, kSlotAlignment);
    crossing_ = SlotPool(first, slot_size(chain_.activation), 2 * stages_ * schedule_.spare_slots);
  }

  void lay_out_device(int d, const std::map<PlaceId, Bytes>& homes) {
    DeviceMemory& memory = memory_[d];
    const std::vector<int> own = blocks_of(d);
    Bytes end = homes.contains(place(d)) ? homes.at(place(d)) : Bytes{};
    const auto whole = [&](ValueKind kind, int b) {
      return at_end(place(d), end, kind, b, -1, kSlotAlignment);
    };
    for (const int b : own) {
      if (train_ && block(b).gradients > Bytes{}) {
        memory.gradients[b] = whole(ValueKind::gradient, b);
      }
    }
    if (has_remote_tie() && d == device_of_block(head())) {
      memory.shared_weight = whole(ValueKind::weight, tied_block());
    }
    if (has_remote_tie() && train_ && d == device_of_block(tied_block())) {
      memory.gradients[head()] = whole(ValueKind::gradient, head());
    }
    memory.scalars_end = end;
    end = round_up(end + kScalarSlot * scalars_of(d, own), kSlotAlignment);
    // With slots to spare the next micro-batch's tokens arrive while this one is in use.
    const int most = most_tokens(d);
    const int spare = schedule_.spare_slots > 0 && most < question_.micro_batches ? 1 : 0;
    memory.tokens = SlotPool(end, slot_size(chain_.tokens), spare);
    if (most > 0) end += slot_size(chain_.tokens) * (most + spare);
    for (const int b : own) {
      if (!keeps(b)) continue;
      const Bytes slot = slot_size(block(b).saved);
      memory.kept.insert_or_assign(b, SlotPool(end, slot, 0));
      end += slot * kept_slots_[b];
    }
    memory.activations = SlotPool(end, slot_size(chain_.activation), schedule_.spare_slots);
  }

  bool keeps(int b) const { return train_ && saves(schedule_.policies, b); }

  std::int64_t scalars_of(int d, const std::vector<int>& own) const {
    std::int64_t count = train_ ? 1 : 0;  // C
    if (train_) count += static_cast<std::int64_t>(own.size());
    if (d == device_of_block(head())) count += question_.micro_batches;
    return count;
  }

  bool uses_tokens(const PipelineTask& run) const {
    return run.stage == 0 || run.stage + 1 == stages_;
  }
  bool last_use_of_tokens(const PipelineTask& run) const {
    const bool both_ends = device_of(0) == device_of(stages_ - 1);
    if (!train_) return run.stage + 1 == stages_ || !both_ends;
    return run.backward && (run.stage == 0 || !both_ends);
  }

  /// The most micro-batches whose tokens a device needs at once.
  int most_tokens(int d) const {
    std::set<int> present;
    std::size_t most = 0;
    for (const PipelineTask& run : schedule_.order) {
      if (!takes_part(run) || device_of(run.stage) != d || !uses_tokens(run)) continue;
      present.insert(run.micro_batch);
      most = std::max(most, present.size());
      if (last_use_of_tokens(run)) present.erase(run.micro_batch);
    }
    return static_cast<int>(most);
  }

  SlotPool& pool_of(DeviceMemory& memory, ValueId value) {
    const Value& held = builder_.values()[value];
    if (held.kind == ValueKind::saved) return memory.kept.at(held.block);
    return held.kind == ValueKind::tokens ? memory.tokens : memory.activations;
  }

  /// The value in a slot of its own from now on.
  InstanceId hold(int d, ValueId value) {
    DeviceMemory& memory = memory_[d];
    const Bytes offset = pool_of(memory, value).take();
    memory.held[value] = offset;
    return builder_.instance(value, place(d), offset);
  }

  /// Its slot is for others: no later task reads it.
  void release(int d, ValueId value) {
    DeviceMemory& memory = memory_[d];
    const auto slot = memory.held.find(value);
    FERRY_CHECK(slot != memory.held.end(), "only what is held can be released");
    pool_of(memory, value).give_back(slot->second);
    memory.held.erase(slot);
  }

  // ---- what crosses the host ----

  /// The value on its device: where it is, or brought there from the host.
  InstanceId fetch(int d, ValueId value) {
    const DeviceMemory& memory = memory_[d];
    const auto slot = memory.held.find(value);
    if (slot != memory.held.end()) return builder_.instance(value, place(d), slot->second);
    const Value& wanted = builder_.values()[value];
    if (wanted.kind == ValueKind::tokens) {
      const InstanceId to = hold(d, value);
      builder_.copy(builder_.device(d).acts_up, host_tokens_[wanted.micro_batch], to);
      return to;
    }
    const auto landed = landed_.find(value);
    FERRY_CHECK(landed != landed_.end(), "an order runs a stage before what it reads is made");
    const InstanceId from = builder_.instance(value, host(), landed->second);
    crossing_.give_back(landed->second);
    landed_.erase(landed);
    const InstanceId to = hold(d, value);
    builder_.copy(builder_.device(d).acts_up, from, to);
    return to;
  }

  /// Passes a boundary value on, unless the stage that reads it is on the same device.
  void pass_on(int d, ValueId value, int reader) {
    if (device_of(reader) == d) return;
    const InstanceId from = fetch(d, value);
    const Bytes offset = landed_[value] = crossing_.take();
    builder_.copy(builder_.device(d).acts_down, from, builder_.instance(value, host(), offset));
    release(d, value);
  }

  /// A tied head reads weights that are at home elsewhere: as the last step left them.
  void share_weight() {
    const int from = device_of_block(tied_block()), to = device_of_block(head());
    builder_.copy(builder_.device(from).sums_down, builder_.home(ValueKind::weight, tied_block()),
                  host_weight_);
    builder_.copy(builder_.device(to).weights_up, host_weight_, memory_[to].shared_weight);
  }

  /// And its gradient sum goes the other way, before the last backward that adds it.
  void share_sum() {
    const int from = device_of_block(head()), to = device_of_block(tied_block());
    builder_.copy(builder_.device(from).sums_down, memory_[from].gradients.at(head()), host_sum_);
    builder_.copy(builder_.device(to).weights_up, host_sum_, memory_[to].gradients.at(head()));
  }

  // ---- runs ----

  ValueId tokens(int m) { return builder_.value(ValueKind::tokens, -1, m); }
  /// What a block reads of the block below: for the first one the tokens.
  ValueId input(int b, int m) {
    return b == 0 ? tokens(m) : builder_.value(ValueKind::activation, b, m);
  }
  ValueId saved(int b, int m) { return builder_.value(ValueKind::saved, b, m); }
  ValueId gradient(int b, int m) { return builder_.value(ValueKind::activation_gradient, b, m); }

  using Downloads = std::vector<std::pair<InstanceId, InstanceId>>;  // from a device to the host

  /// Where a forward or backward finds a value on its device, or leaves it. What nobody there reads
  /// joins the downloads.
  InstanceId where(int d, const ValueKey& wanted, bool write, Downloads& downloads) {
    const auto [kind, b, m] = wanted;
    switch (kind) {
      case ValueKind::weight:
        return device_of_block(b) == d ? builder_.home(kind, b) : memory_[d].shared_weight;
      case ValueKind::gradient:
        return memory_[d].gradients.at(b);
      case ValueKind::norm:
        downloads.emplace_back(scalar(d, kind, b, m), norms_.at(b));
        return downloads.back().first;
      case ValueKind::loss:
        downloads.emplace_back(scalar(d, kind, b, m), losses_[m]);
        return downloads.back().first;
      default:
        return write ? hold(d, builder_.value(kind, b, m)) : fetch(d, builder_.value(kind, b, m));
    }
  }
  void download(int d, const Downloads& downloads) {
    for (const auto& [from, to] : downloads) builder_.copy(builder_.device(d).acts_down, from, to);
  }

  void write_run(const PipelineTask& run) {
    const int d = device_of(run.stage);
    run.backward ? backward_stage(run) : forward_stage(run);
    if (uses_tokens(run) && last_use_of_tokens(run)) release(d, tokens(run.micro_batch));
    // Clipping puts updates off until all norms are known.
    if (--runs_left_[d] == 0 && train_ && !question_.clips) update_all_of(d, {});
  }

  void forward_stage(const PipelineTask& run) {
    for (int b = first(run.stage); b < end(run.stage); ++b) {
      if (has_forward(block(b))) forward(b, run.micro_batch, device_of(run.stage));
    }
    if (run.stage + 1 < stages_) {
      pass_on(device_of(run.stage), input(end(run.stage), run.micro_batch), run.stage + 1);
    }
  }

  void forward(int b, int m, int d) {
    Downloads downloads;
    builder_.forward(b, m, d, keeps(b), [&](const Access& access, bool write) {
      return where(d, access.value, write, downloads);
    });
    download(d, downloads);
    if (!train_ && b > 0) release(d, input(b, m));
  }

  void backward_stage(const PipelineTask& run) {
    const int d = device_of(run.stage), m = run.micro_batch;
    Downloads downloads;  // what nobody waits for
    for (int b = end(run.stage) - 1; b >= first(run.stage); --b) backward(b, m, d, downloads);
    if (run.stage > 0) pass_on(d, gradient(first(run.stage), m), run.stage - 1);
    download(d, downloads);
    const bool sum_is_whole = run.stage + 1 == stages_ && last_micro_batch(m);
    if (sum_is_whole && has_remote_tie()) share_sum();
  }

  void backward(int b, int m, int d, Downloads& downloads) {
    builder_.backward(b, m, d, keeps(b), [&](const Access& access, bool write) {
      return where(d, access.value, write, downloads);
    });
    if (keeps(b)) release(d, saved(b, m));
    if (b != head()) release(d, gradient(b + 1, m));
    if (b > 0) release(d, input(b, m));
  }

  // ---- the end of a step ----

  bool trains_any_of(const std::vector<int>& own) const {
    return std::any_of(own.begin(), own.end(), [&](int b) { return block(b).trainable; });
  }

  /// Behind the device's last backward, whose successor waits for a boundary gradient anyway.
  void update_all_of(int d, InstanceId scale) {
    for (const int b : blocks_of(d)) {
      if (!block(b).trainable) continue;
      builder_.update(b, builder_.device(d).compute, memory_[d].gradients.at(b), scale);
    }
  }

  /// The step's loss and norm; with clipping, the updates that waited for them.
  void collect_and_update() {
    builder_.clip([&](const Access& access, bool) {
      if (access.part == Part::norm) return norms_.at(access.value.block);
      return access.part == Part::loss ? losses_[access.value.micro_batch] : scale_;
    });
    if (!scale_.valid()) return;
    for (int d = 0; d < devices_; ++d) {
      if (!trains_any_of(blocks_of(d))) continue;
      const InstanceId scale = scalar(d, ValueKind::clip, -1, -1);
      builder_.copy(builder_.device(d).weights_up, scale_, scale);
      update_all_of(d, scale);
    }
  }

  const PlanQuestion& question_;
  const Chain& chain_;
  const PipelineSchedule& schedule_;
  const bool train_;
  const int stages_;
  const int devices_;
  PlanBuilder builder_;
  std::vector<DeviceMemory> memory_;
  std::vector<int> runs_left_;  // per device
  const KeptSlots kept_slots_;  // by block
  Bytes host_end_;
  SlotPool crossing_{{}, {}, 0};
  std::map<ValueId, Bytes> landed_;      // boundary values on the host and not yet fetched
  std::vector<InstanceId> host_tokens_;  // by micro-batch
  std::vector<InstanceId> losses_;       // by micro-batch
  std::map<BlockId, InstanceId> norms_;
  InstanceId host_weight_;  // a tied weight on its way
  InstanceId host_sum_;     // and its head's gradient sum
  InstanceId scale_;
};

}  // namespace

Plan write_pipeline_plan(const PlanQuestion& question, const Chain& chain,
                         const PipelineSchedule& schedule, const std::string& strategy) {
  FERRY_CHECK(schedule.ends.size() == schedule.device_of_stage.size(), "every stage has a device");
  return PipelineWriter(question, chain, schedule, strategy).write();
}

}  // namespace ferry
