#include "planner/write/stream_plan.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "base/check.h"
#include "planner/write/builder.h"
#include "planner/write/host_store.h"
#include "planner/write/residence.h"
#include "planner/write/step_visits.h"
#include "planner/write/visit_stores.h"

namespace ferry {
namespace {

constexpr int kHostGradientTurns = 2;

// How backwards list what they read and write.
constexpr std::array kBackwardOrder = {
    Part::weight,          Part::tied_weight, Part::input,    Part::tokens,
    Part::output_gradient, Part::saved,       Part::gradient, Part::tied_gradient,
    Part::input_gradient,  Part::loss,        Part::norm};

class StreamWriter {
 public:
  /// `inputs`: by device, what the inputs that stay take there, as far as it is known.
  StreamWriter(const PlanQuestion& question, const Chain& chain, const StreamSchedule& schedule,
               std::vector<Bytes> inputs)
      : question_(question),
        chain_(chain),
        schedule_(schedule),
        train_(question.mode == PlanMode::train),
        builder_(question, chain, schedule.strategy, {kBackwardOrder, {}}, schedule.devices,
                 schedule.uses_drives()),
        residence_(question, chain, schedule),
        store_(builder_, chain, schedule, residence_),
        visits_(question, chain, schedule),
        token_uses_(token_uses(chain, visits_.all())),
        devices_({question, chain, schedule, residence_, visits_}, builder_, store_, token_uses_,
                 with_arrivals(std::move(inputs))) {
    for (const TokenUse& use : token_uses_) ++uses_left_[use];
  }

  Plan write(TaskNames names) {
    set_stages();
    builder_.set_again_from(schedule_.again_from);
    for (int m = 0; m < question_.micro_batches; ++m) builder_.load(m, store_.tokens(m));
    for (std::size_t v = 0; v < visits_.count(); ++v) {
      if (v == visits_.first_again()) {
        collect();
        update_landed(true);
      }
      run(v);
    }
    // Behind all other sums, in the order in which the next step needs the blocks' updates.
    for (const auto& [b, v] : waiting_) {
      if (residence_.updates_last(b)) {
        store_.update(b, scale_);
      } else {
        land(v, b);
      }
    }
    if (visits_.count() == visits_.first_again()) collect();
    if (train_) {
      for (int d = 0; d < schedule_.devices; ++d) update_all(d);
      update_landed(false);
    }
    builder_.settle(store_.end(), kHostGradientTurns, names);
    return builder_.finish();
  }

  const VisitStores& devices() const { return devices_; }

 private:
  // ---- the chain and its visits ----

  int blocks() const { return static_cast<int>(chain_.size()); }
  const ChainBlock& block(int b) const { return chain_.blocks[b]; }
  bool is_head(int b) const { return b + 1 == blocks(); }
  int owner_of(int b) const { return weight_owner(chain_, b); }

  void set_stages() {
    std::vector<bool> begins(chain_.size(), false);
    for (const StageVisit& visit : schedule_.visits) {
      if (visits_.counts_stages(visit)) begins[visit.first] = true;
    }
    int stage = -1;
    for (int b = 0; b < blocks(); ++b) {
      if (begins[b]) ++stage;
      builder_.set_stage(b, stage);
    }
  }

  // ---- activations ----

  InstanceId in_visit(std::size_t v, ValueKind kind, int b) {
    return devices_.in_visit(v, kind, b);
  }

  InstanceId fetch_tokens(int d, int m) {
    const ValueId value = builder_.value(ValueKind::tokens, -1, m);
    if (const auto here = devices_[d].find(value)) return *here;
    const InstanceId to = devices_[d].take(value, {});
    builder_.copy(builder_.device(d).acts_up, store_.tokens(m), to);
    return to;
  }

  void let_go_tokens(int d, int m) {
    if (--uses_left_[{d, m}] == 0) devices_[d].let_go(builder_.value(ValueKind::tokens, -1, m));
  }

  /// The value in its slot, brought there from the host unless it still is there.
  InstanceId fetch(int d, ValueId value, std::span<const ValueId> kept = {}) {
    if (const auto here = devices_[d].find(value)) return *here;
    const InstanceId from = store_.activation(value);
    const InstanceId to = devices_[d].take(value, kept);
    builder_.copy(builder_.device(d).acts_up, from, to);
    return to;
  }

  /// What the block's forward keeps stays on the device.
  bool rests_here(int b) const {
    return policy_of(schedule_.policies, b) == ActivationPolicy::keep;
  }

  ValueId saved(int b, int m) { return builder_.value(ValueKind::saved, b, m); }

  void bring_down(int d, InstanceId from, ValueId value) {
    const DeviceQueues& queues = builder_.device(d);
    const bool kept = builder_.values()[value].kind == ValueKind::saved;
    builder_.copy(kept ? queues.sums_down : queues.acts_down, from, store_.land_activation(value));
    store_.activation_landed(value);
  }

  // ---- straight from device to device ----

  bool sends(int from, int to) const { return schedule_.straight && may_send(question_, from, to); }

  /// `inputs`, with a slot for each micro-batch of a visit whose inputs come straight, but of those
  /// that stay, which are known once the plan is written.
  std::vector<Bytes> with_arrivals(std::vector<Bytes> inputs) const {
    inputs.resize(schedule_.devices);
    if (!schedule_.straight) return inputs;
    for (std::size_t v = 0; v < visits_.count(); ++v) {
      const StageVisit& visit = visits_[v];
      const Bytes all = slot_size(chain_.activation) * (visit.end_batch - visit.first_batch);
      const auto passes = [&](ValueKind kind, int b) {
        if (b <= 0 || b >= blocks() || residence_.home(b).input_stays) return;
        const int reader = visits_.next_reader(v, {kind, b, visit.first_batch});
        if (sends(visit.device, reader)) inputs[reader] = std::max(inputs[reader], all);
      };
      if (visit.direction == Direction::forward) passes(ValueKind::activation, visit.end);
      if (visit.direction != Direction::forward && !visits_.ends_again(v)) {
        passes(ValueKind::activation_gradient, visit.first);
      }
    }
    return inputs;
  }

  /// To the stage that reads it next; and to DRAM, unless only that stage reads it.
  void pass_on(std::size_t v, InstanceId from, ValueId value) {
    const int d = visits_[v].device;
    const Value passed = builder_.values()[value];
    const int reader = schedule_.straight ? visits_.next_reader(v, key_of(passed)) : d;
    const bool straight = sends(d, reader);
    if (straight) {
      builder_.copy(builder_.between(d, reader, Cargo::activations), from,
                    devices_[reader].land(value));
    }
    const bool rests =
        passed.kind == ValueKind::activation && !residence_.home(passed.block.number()).input_stays;
    if (!straight || rests) bring_down(d, from, value);
  }

  /// Copies W to where the visit reads it: from the host, or from the device it is at home on.
  void bring_weight(std::size_t v, int b) {
    const int d = visits_[v].device;
    const int home = residence_.home(b).on_device ? residence_.device(b) : d;
    if (sends(home, d)) {
      builder_.copy(builder_.between(home, d, Cargo::sums), builder_.home(ValueKind::weight, b),
                    in_visit(v, ValueKind::weight, b));
    } else {
      const InstanceId from = weight_on_host(b);
      builder_.copy(builder_.device(d).weights_up, from, in_visit(v, ValueKind::weight, b));
    }
  }

  /// Whether the sum that the visit leaves can go straight to the visit that goes on with it: a
  /// sum without a slot of its own is gone when the device's next visit begins.
  bool sends_sum(std::size_t v, int b) const {
    if (!schedule_.straight) return false;
    const StageVisit& visit = visits_[v];
    const std::span<const StageVisit> rest = visits_.behind(v);
    const auto next = visits_.next_with_sum(v, b);
    if (next == rest.end() || !sends(visit.device, next->device)) return false;
    const std::span<const StageVisit> between(rest.begin(), next);
    return residence_.keeps_sum(visit.device, b) ||
           std::ranges::find(between, visit.device, &StageVisit::device) == between.end();
  }

  /// A sum for a later visit: it waits where it is to go straight there, or comes down.
  void pass_sum_on(std::size_t v, int b) {
    if (sends_sum(v, b)) {
      sent_[b] = v;
    } else {
      bring_sum_down(v, ValueKind::gradient, b, true);
    }
  }

  /// Copies what an earlier visit began, or a tied head's sum, to where the visit adds to it.
  void bring_sum(std::size_t v, int b) {
    const int d = visits_[v].device;
    const InstanceId to = in_visit(v, ValueKind::gradient, b);
    const auto sent = sent_.find(b);
    if (sent == sent_.end()) {
      builder_.copy(builder_.device(d).weights_up, store_.sum(ValueKind::gradient, b), to);
      return;
    }
    const int from = visits_[sent->second].device;
    builder_.copy(builder_.between(from, d, Cargo::sums),
                  in_visit(sent->second, ValueKind::gradient, b), to);
    sent_.erase(sent);
  }

  void bring_loss_down(int d, InstanceId loss, int m) {
    losses_[m] = store_.scalar(ValueKind::loss, {}, m);
    builder_.copy(builder_.device(d).acts_down, loss, losses_[m]);
  }

  // ---- visits ----

  void run(std::size_t v) {
    const StageVisit& visit = visits_[v];
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
    if (visit.direction != Direction::forward) finish_sums(v, norms);
  }

  /// Uploads what is not there yet: weights that stay once per step, then what passes, in the order
  /// of need.
  void upload(std::size_t v) {
    const StageVisit& visit = visits_[v];
    for (int b = visit.first; b < visit.end; ++b) {
      const int owner = owner_of(b);
      if (!residence_.keeps_weight(visit.device, owner)) continue;
      if (!renewed_.emplace(visit.device, owner).second) continue;
      if (residence_.renews_at_once(owner)) {
        const ResourceId queue = builder_.device(visit.device).weights_up;
        builder_.refresh(queue, weight_on_host(owner), in_visit(v, ValueKind::weight, owner));
      } else {
        bring_weight(v, owner);
      }
    }
    for (const ValueId value : devices_.passing(v)) {
      const Value needed = builder_.values()[value];
      const int b = needed.block;
      if (needed.kind == ValueKind::weight) {
        if (uploads_weight(v, b)) bring_weight(v, b);
      } else if (needed.kind == ValueKind::gradient && uploads_sum(visit, b)) {
        bring_sum(v, b);
      }
    }
  }

  /// Not what the visit before has left there; and only what this one reads, not the one behind.
  bool uploads_weight(std::size_t v, int b) const {
    const StageVisit& visit = visits_[v];
    const auto reads = [&](bool forward) {
      for (int reader = visit.first; reader < visit.end; ++reader) {
        if (owner_of(reader) != b) continue;
        if (forward ? has_forward(block(reader)) : reader > 0) return true;
      }
      return false;
    };
    const bool forward = visit.direction != Direction::backward && reads(true);
    const bool backward = visit.direction != Direction::forward && reads(false);
    return devices_.goes_on(v) ? backward && !reads(true) : forward || backward;
  }

  /// A sum that an earlier visit began, or a tied head's from another stage.
  bool uploads_sum(const StageVisit& visit, int b) const {
    if (visit.direction == Direction::forward) return false;
    if (contains(visit, b)) return visit.first_batch > 0;
    return visits_.completes_sums(visit) && contains(visit, owner_of(b));
  }

  /// W on the host: for a reader elsewhere it comes down from the device that it is at home on.
  InstanceId weight_on_host(int b) {
    if (!residence_.home(b).on_device) return store_.weight(b);
    const InstanceId shared = store_.scalar(ValueKind::weight, b, -1);
    if (shared_.insert(b).second) {
      const ResourceId down = builder_.device(residence_.device(b)).sums_down;
      builder_.copy(down, builder_.home(ValueKind::weight, b), shared);
    }
    return shared;
  }

  /// Where a task of the visit finds weights, gradient sums and tokens.
  InstanceId of_visit(std::size_t v, const ValueKey& wanted) {
    if (wanted.kind == ValueKind::tokens) {
      return fetch_tokens(visits_[v].device, wanted.micro_batch);
    }
    return in_visit(v, wanted.kind, wanted.block);
  }

  /// Backward finds a block's input where its forward did.
  bool reads_again(const StageVisit& visit, int b) const {
    return train_ && (residence_.home(b).input_stays || visit.direction == Direction::fused);
  }

  void forward(int b, int m, std::size_t v) {
    const StageVisit& visit = visits_[v];
    const int d = visit.device;
    const ValueId input = builder_.value(ValueKind::activation, b, m);
    const ValueId output = builder_.value(ValueKind::activation, b + 1, m);
    InstanceId made, kept, loss;
    builder_.forward(b, m, d, saves(schedule_.policies, b), [&](const Access& access, bool) {
      switch (access.part) {
        case Part::input:
          return fetch(d, input);
        case Part::output:
          return made = devices_[d].take(output, std::array{input});
        case Part::saved:
          return kept = devices_[d].take(saved(b, m), {});
        case Part::loss:
          return loss = devices_[d].scalar(ValueKind::loss, {}, m);
        default:
          return of_visit(v, access.value);
      }
    });
    if (loss.valid()) bring_loss_down(d, loss, m);
    if (b > 0 && !reads_again(visit, b)) devices_[d].let_go(input);  // free before what goes down
    if (made.valid() && !residence_.keeps_input(d, b + 1)) {  // what the next stage waits for
      pass_on(v, made, output);
      devices_[d].let_go(output);
    }
    if (kept.valid() && !rests_here(b)) bring_down(d, kept, saved(b, m));
    if (reads_tokens(chain_, b)) let_go_tokens(d, m);
  }

  void backward_through(std::size_t v, int m, std::vector<InstanceId>& norms) {
    const StageVisit& visit = visits_[v];
    const int d = visit.device;
    InstanceId loss;
    for (int b = visit.end - 1; b >= visit.first; --b) {
      if (is_head(b)) loss = devices_[d].scalar(ValueKind::loss, {}, m);
      backward(b, m, v, {loss, norms});
    }
    // What the next stage waits for leaves before anything else.
    const bool is_read = !visits_.ends_again(v);
    if (visit.first > 0 && !(is_read && residence_.keeps_input_gradient(d, visit.first))) {
      const ValueId passed = builder_.value(ValueKind::activation_gradient, visit.first, m);
      if (is_read) pass_on(v, fetch(d, passed), passed);
      devices_[d].let_go(passed);
    }
    if (loss.valid() && !visits_.is_again(v)) bring_loss_down(d, loss, m);
  }

  struct BackwardResults {
    InstanceId loss;                 // of the head
    std::vector<InstanceId>& norms;  // of the last micro-batch
  };

  void backward(int b, int m, std::size_t v, const BackwardResults& results) {
    const int d = visits_[v].device;
    const ValueId input = builder_.value(ValueKind::activation, b, m);
    const ValueId above =  // the head has nothing above it
        is_head(b) ? input : builder_.value(ValueKind::activation_gradient, b + 1, m);
    const ValueId below = builder_.value(ValueKind::activation_gradient, b, m);
    in_visit(v, ValueKind::gradient, b);  // made first: files list instances in that order
    // The gradient of the output first: within a stage it is still in its slot.
    const InstanceId from_above =
        is_head(b) ? fetch_tokens(d, m) : fetch(d, above, std::array{input});
    const auto where = [&](const Access& access, bool) {
      switch (access.part) {
        case Part::output_gradient:
          return from_above;
        case Part::tokens:
          return is_head(b) ? from_above : fetch_tokens(d, m);
        case Part::input:
          return fetch(d, input, std::array{above});
        case Part::saved:
          return fetch(d, saved(b, m));
        case Part::input_gradient:
          return devices_[d].take(below, std::array{input, above});
        case Part::loss:
          return results.loss;
        case Part::norm:
          results.norms.push_back(devices_[d].scalar(ValueKind::norm, b, -1));
          return results.norms.back();
        default:
          return of_visit(v, access.value);
      }
    };
    builder_.backward(b, m, d, saves(schedule_.policies, b), where);
    if (saves(schedule_.policies, b)) devices_[d].let_go(saved(b, m));
    if (!is_head(b)) devices_[d].let_go(above);
    const bool reads_on = visits_.is_for_norm(v, b) && residence_.home(b).input_stays;
    if (b > 0 && !reads_on) devices_[d].let_go(input);
    if (reads_tokens(chain_, b)) let_go_tokens(d, m);
  }

  /// Norms first, since clipping waits for all of them, then the sums, deepest block first.
  void finish_sums(std::size_t v, const std::vector<InstanceId>& norms) {
    const StageVisit& visit = visits_[v];
    auto norm = norms.begin();
    const bool brings_norms = visits_.completes_sums(visit) && !visits_.is_again(v);
    for (int b = visit.end - 1; b >= visit.first && brings_norms; --b) {
      if (!block(b).trainable) continue;
      norms_[b] = store_.scalar(ValueKind::norm, b, -1);
      builder_.copy(builder_.device(visit.device).acts_down, *norm++, norms_[b]);
    }
    for (int b = visit.end - 1; b >= visit.first; --b) {
      if (block(b).gradients > Bytes{}) finish_sum(v, b);
    }
    update_here(v);
  }

  void finish_sum(std::size_t v, int b) {
    const StageVisit& visit = visits_[v];
    const bool gathers = residence_.gathers_sum(visit.device, b);
    if (!visits_.completes_sums(visit)) {
      if (!gathers) pass_sum_on(v, b);
    } else if (!block(b).trainable) {
      const bool is_dropped = visits_.is_again(v) && owner_of(b) < schedule_.again_from;
      if (!is_dropped && goes_to_owner(visit, b)) pass_sum_on(v, b);
    } else if (visits_.is_for_norm(v, b)) {
      return;
    } else if (residence_.updates(visit.device, b)) {
      if (!residence_.updates_wait(b)) due_[visit.device].insert(b);
    } else if (gathers) {
      waiting_[b] = v;
    } else if (residence_.updates_last(b)) {
      bring_sum_down(v, residence_.update_sum(b), b, true);
      waiting_[b] = v;
    } else {
      land(v, b);
    }
  }

  /// G or R; `waits`: something comes between landing and its next use.
  void bring_sum_down(std::size_t v, ValueKind kind, int b, bool waits) {
    builder_.copy(builder_.device(visits_[v].device).sums_down, in_visit(v, kind, b),
                  store_.land_sum(kind, b));
    store_.sum_landed(kind, b, waits);
  }

  /// A whole sum, for the host to update by.
  void land(std::size_t v, int b) {
    const bool waits = residence_.updates_wait(b) && !scale_.valid();
    bring_sum_down(v, residence_.update_sum(b), b, waits);
    if (waits) landed_.push_back(b);
    if (residence_.updates_ahead(b)) store_.update(b, {});
    if (!waits) store_.update(b, scale_);
    renew_at_once(b);
  }

  /// A tied head's whole sum, to where the block adds it whose weights it reads.
  bool goes_to_owner(const StageVisit& visit, int b) const {
    const int owner = owner_of(b);
    if (contains(visit, owner)) return false;
    return !residence_.gathers_sum(visit.device, b) ||
           visits_.last_backward_device(owner) != visit.device;
  }

  /// Updates on the device that wait for nothing: at once where the next visit takes a sum's slot,
  /// else behind the device's last visit, whose successor waits for something else anyway.
  void update_here(std::size_t v) {
    const int d = visits_[v].device;
    const auto later = visits_.behind(v);
    const bool last = std::ranges::find(later, d, &StageVisit::device) == later.end();
    std::erase_if(due_[d], [&](int b) {
      if (!last && residence_.keeps_sum(d, b)) return false;
      const InstanceId scale = scale_on(d);
      builder_.update(b, builder_.device(d).compute, in_visit(v, ValueKind::gradient, b), scale);
      return true;
    });
  }

  /// Copies what the block's update leaves to where W stays.
  void renew_at_once(int b) {
    if (!residence_.renews_at_once(b)) return;
    for (int d = 0; d < schedule_.devices; ++d) {
      if (!renewed_.contains({d, b})) continue;
      builder_.copy(builder_.renewals_up(d), weight_on_host(b),
                    devices_[d].staying(ValueKind::weight, b).value());
    }
  }

  /// The step's loss and norm.
  void collect() {
    if (train_ && question_.clips) scale_ = store_.scalar(ValueKind::clip, {}, -1);
    builder_.clip([&](const Access& access, bool) {
      if (access.part == Part::norm) return norms_.at(access.value.block);
      return access.part == Part::loss ? losses_.at(access.value.micro_batch) : scale_;
    });
  }

  /// The host's updates that waited, for the norm or the end of backward.
  void update_landed(bool backwards_follow) {
    if (!schedule_.updates_as_landed) std::ranges::sort(landed_);
    std::erase_if(landed_, [&](int b) {
      if (backwards_follow && tied_head(chain_, b) >= 0) return false;  // the head's read W
      store_.update(b, scale_);
      return true;
    });
  }

  /// The device's.
  void update_all(int d) {
    for (int b = 0; b < blocks(); ++b) {
      if (!residence_.updates(d, b) || !residence_.updates_wait(b)) continue;
      const InstanceId sum = devices_[d].staying(residence_.update_sum(b), b).value();
      builder_.update(b, builder_.device(d).compute, sum, scale_on(d));
    }
  }

  /// What clips, on the device; none where nothing does.
  InstanceId scale_on(int d) {
    if (!scale_.valid()) return {};
    const auto [here, fresh] = scales_.try_emplace(d);
    if (!fresh) return here->second;
    here->second = devices_[d].scalar(ValueKind::clip, {}, -1);
    builder_.copy(builder_.device(d).weights_up, scale_, here->second);
    return here->second;
  }

  const PlanQuestion& question_;
  const Chain& chain_;
  const StreamSchedule& schedule_;
  const bool train_;
  PlanBuilder builder_;
  const Residence residence_;
  HostStore store_;
  const StepVisits visits_;
  const std::vector<TokenUse> token_uses_;  // in order
  std::map<TokenUse, int> uses_left_;
  VisitStores devices_;
  std::set<std::pair<int, int>> renewed_;  // device and block whose W it has got in this step
  std::set<int> shared_;                   // blocks whose W came down from their device
  std::map<int, std::size_t> sent_;        // blocks whose sums go straight on, from which visit
  std::map<int, std::set<int>> due_;       // by device: blocks to update there
  std::map<int, std::size_t> waiting_;     // blocks whose sums come down last, and their visits
  std::vector<int> landed_;                // blocks whose updates wait, as their sums came down
  std::map<BlockId, InstanceId> norms_;    // on the host
  std::map<int, InstanceId> losses_;       // likewise, by micro-batch
  InstanceId scale_;                       // likewise, once the norm is known
  std::map<int, InstanceId> scales_;       // by device
};

}  // namespace

Plan write_stream_plan(const PlanQuestion& question, const Chain& chain,
                       const StreamSchedule& schedule, TaskNames names) {
  FERRY_CHECK(schedule.activation_slots >= kLeastActivationSlots, "activation slots of a device");
  StreamWriter writer(question, chain, schedule, {});
  Plan plan = writer.write(names);
  if (!writer.devices().is_crowded()) return plan;
  return StreamWriter(question, chain, schedule, writer.devices().inputs()).write(names);
}

std::vector<DeviceNeed> device_needs(const PlanQuestion& question, const Chain& chain,
                                     const StreamSchedule& schedule) {
  return StreamWriter(question, chain, schedule, {}).devices().needs();
}

}  // namespace ferry
