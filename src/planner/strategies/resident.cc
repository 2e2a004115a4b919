// Strategy `resident`: weights, states, gradients and one micro-batch's activations stay on the
// first device; nothing is copied but tokens, norms, losses and the gradient scale.
#include "planner/strategies/resident.h"

#include <cstddef>

#include "planner/strategies/passes.h"
#include "planner/write/activation_policy.h"
#include "planner/write/builder.h"
#include "spec/pass_names.h"

namespace ferry {
namespace {

constexpr int kDevice = 0;

class ResidentPlan {
 public:
  ResidentPlan(const PlanQuestion& question, const Chain& chain, const ActivationPolicies& policies)
      : question_(question),
        chain_(chain),
        policies_(policies),
        builder_(question, chain, "resident", 1) {}

  Plan write() {
    place_values();
    for (int m = 0; m < question_.micro_batches; ++m) micro_batch(m);
    if (question_.mode == PlanMode::train) {
      update();
    } else {
      collect(-1);
    }
    builder_.settle({}, 1);
    return builder_.finish();
  }

 private:
  PlaceId device() const { return builder_.device(kDevice).place; }
  PlaceId host() const { return builder_.queues().host; }
  int blocks() const { return static_cast<int>(chain_.size()); }
  const ChainBlock& block(int b) const { return chain_.blocks[static_cast<std::size_t>(b)]; }

  Bytes take(Bytes& end, Bytes size, Bytes alignment) {
    const Bytes offset = round_up(end, alignment);
    end = offset + size;
    return offset;
  }

  InstanceId on_device(ValueKind kind, int b, int m) {
    const ValueId value = builder_.value(kind, b, m);
    return builder_.instance(value, device(),
                             take(device_end_, builder_.bytes(value), kSlotAlignment));
  }

  // Small values that cross to the host or come from it.
  InstanceId on_host(ValueKind kind, int b, int m) {
    const ValueId value = builder_.value(kind, b, m);
    return builder_.instance(value, host(), take(host_end_, builder_.bytes(value), kSlotAlignment));
  }

  void place_values() {
    device_end_ = builder_.lay_out_home(device());
    gradients_.assign(chain_.size(), -1);
    if (question_.mode == PlanMode::train) {
      for (int b = 0; b < blocks(); ++b) {
        if (block(b).gradients > Bytes{}) {
          gradients_[static_cast<std::size_t>(b)] = on_device(ValueKind::gradient, b, -1);
        }
      }
    }
    activation_slots_.resize(chain_.size());
    for (int b = 1; b < blocks(); ++b) {
      activation_slots_[static_cast<std::size_t>(b)] =
          take(device_end_, chain_.activation, kSlotAlignment);
    }
    // A block reads the gradient of its output and writes that of its input.
    for (Bytes& slot : gradient_slots_) {
      slot = question_.mode == PlanMode::train
                 ? take(device_end_, chain_.activation, kSlotAlignment)
                 : device_end_;
    }
    // The next micro-batch's tokens arrive while this one computes.
    for (Bytes& slot : token_slots_) slot = take(device_end_, chain_.tokens, kSlotAlignment);
    // A micro-batch's backward is over before the next one's forward keeps anything.
    saved_slots_.resize(chain_.size());
    for (int b = 0; b < blocks(); ++b) {
      if (!saves(policies_, b)) continue;
      saved_slots_[static_cast<std::size_t>(b)] = take(device_end_, block(b).saved, kSlotAlignment);
    }
  }

  InstanceId tokens(int m) {
    return builder_.instance(builder_.value(ValueKind::tokens, -1, m), device(),
                             token_slots_[static_cast<std::size_t>(m % 2)]);
  }

  InstanceId activation(int b, int m) {
    if (b == 0) return tokens(m);
    return builder_.instance(builder_.value(ValueKind::activation, b, m), device(),
                             activation_slots_[static_cast<std::size_t>(b)]);
  }

  InstanceId activation_gradient(int b, int m) {
    return builder_.instance(builder_.value(ValueKind::activation_gradient, b, m), device(),
                             gradient_slots_[static_cast<std::size_t>(b % 2)]);
  }

  InstanceId saved(int b, int m) {
    return builder_.instance(builder_.value(ValueKind::saved, b, m), device(),
                             saved_slots_[static_cast<std::size_t>(b)]);
  }

  InstanceId weight(int b) const {
    return builder_.home(ValueKind::weight, weight_owner(chain_, b));
  }

  void micro_batch(int m) {
    const InstanceId loaded = on_host(ValueKind::tokens, -1, m);
    builder_.load(m, loaded);
    builder_.copy(builder_.device(kDevice).acts_up, loaded, tokens(m));
    for (int b = 0; b < blocks(); ++b) {
      if (has_forward(block(b))) forward(b, m);
    }
    if (question_.mode == PlanMode::train) {
      for (int b = blocks() - 1; b >= 0; --b) backward(b, m);
    }
    const ValueId loss = builder_.value(ValueKind::loss, -1, m);
    losses_.push_back(on_host(ValueKind::loss, -1, m));
    builder_.copy(builder_.device(kDevice).down, builder_.instance(loss, device(), loss_slot_),
                  losses_.back());
  }

  InstanceId loss_on_device(int m) {
    const InstanceId id = on_device(ValueKind::loss, -1, m);
    loss_slot_ = device_end_ - 4_B;
    return id;
  }

  void forward(int b, int m) {
    std::vector<InstanceId> reads = {weight(b), activation(b, m)};
    if (b + 1 < blocks()) {
      std::vector<InstanceId> writes = {activation(b + 1, m)};
      if (saves(policies_, b)) writes.push_back(saved(b, m));
      builder_.forward(b, m, kDevice, std::move(reads), std::move(writes));
      return;
    }
    reads.push_back(tokens(m));  // labels
    builder_.forward(b, m, kDevice, std::move(reads), {loss_on_device(m)});
  }

  void backward(int b, int m) {
    const bool last_micro_batch = m + 1 == question_.micro_batches;
    const InstanceId gradient = gradients_[static_cast<std::size_t>(b)];
    std::vector<InstanceId> reads = {weight(b), activation(b, m)};
    std::vector<InstanceId> writes = {gradient};
    if (saves(policies_, b)) reads.push_back(saved(b, m));
    if (b + 1 < blocks()) {
      reads.push_back(activation_gradient(b + 1, m));
    } else {
      reads.push_back(tokens(m));
      writes.push_back(loss_on_device(m));
    }
    if (m > 0) reads.push_back(gradient);
    if (b > 0) writes.push_back(activation_gradient(b, m));
    if (last_micro_batch) {
      for (int head = b + 1; head < blocks(); ++head) {  // a tied head's share of this weight
        if (block(head).reads_weight == b) {
          reads.push_back(gradients_[static_cast<std::size_t>(head)]);
        }
      }
      if (block(b).trainable) {
        norms_.push_back(on_device(ValueKind::norm, b, -1));
        writes.push_back(norms_.back());
      }
    }
    builder_.backward(b, m, kDevice, std::move(reads), std::move(writes));
    if (last_micro_batch && block(b).trainable) {
      const InstanceId norm = on_host(ValueKind::norm, b, -1);
      builder_.copy(builder_.device(kDevice).down, norms_.back(), norm);
      host_norms_.push_back(norm);
    }
  }

  /// The step's loss and norm, and its gradient scale when there is one.
  void collect(InstanceId scale) {
    std::vector<InstanceId> reads = host_norms_;
    reads.insert(reads.end(), losses_.begin(), losses_.end());
    builder_.clip(std::move(reads), scale);
  }

  void update() {
    InstanceId scale = -1;
    if (question_.clips) {
      const InstanceId made = on_host(ValueKind::clip, -1, -1);
      collect(made);
      scale = on_device(ValueKind::clip, -1, -1);
      builder_.copy(builder_.device(kDevice).weights_up, made, scale);
    } else {
      collect(-1);
    }
    for (int b = 0; b < blocks(); ++b) {
      if (!block(b).trainable) continue;
      std::vector<InstanceId> reads = {gradients_[static_cast<std::size_t>(b)]};
      if (scale >= 0) reads.push_back(scale);
      builder_.update(b, builder_.device(kDevice).compute, std::move(reads));
    }
  }

  const PlanQuestion& question_;
  const Chain& chain_;
  const ActivationPolicies& policies_;
  PlanBuilder builder_;
  Bytes device_end_;
  Bytes host_end_;
  Bytes loss_slot_;
  std::vector<InstanceId> gradients_;    // per block
  std::vector<Bytes> activation_slots_;  // per block, of one micro-batch
  std::vector<Bytes> saved_slots_;       // likewise
  Bytes gradient_slots_[2];
  Bytes token_slots_[2];
  std::vector<InstanceId> norms_;
  std::vector<InstanceId> host_norms_;
  std::vector<InstanceId> losses_;  // on the host
};

// Whatever is kept shortens the step by its recompute, so as much as fits is kept.
ActivationPolicies fastest_policies(const Chain& chain, const Plan& recomputing) {
  const KeptSlots one_each = one_slot_each(chain);
  const std::vector<int> on_it(chain.size(), 0);
  return keep_what_fits(chain, by_device_density(chain, one_each, 1), one_each, on_it,
                        rooms_of(recomputing));
}

}  // namespace

StrategyAnswer plan_resident(const PlanQuestion& question, const Chain& chain) {
  const bool keeps_all = question.options.activations == ActivationRule::keep;
  const ActivationPolicies asked =
      keeps_all ? keep_all(chain, one_slot_each(chain)) : ActivationPolicies{};
  Plan plan = ResidentPlan(question, chain, asked).write();
  std::vector<Shortage> lacking = shortages(plan);
  if (!lacking.empty()) return std::move(lacking.front());
  if (question.options.activations == ActivationRule::automatic &&
      Passes(question).has(pass_name::kActivations)) {
    const ActivationPolicies policies = fastest_policies(chain, plan);
    if (saves_any(policies)) plan = ResidentPlan(question, chain, policies).write();
  }
  Simulation prediction = simulate(plan);
  StrategyPlan answer{std::move(plan), std::move(prediction), "all on the first device"};
  answer.report.stages = {
      {Direction::both, question.machine.devices[kDevice].name, 0, static_cast<int>(chain.size())}};
  answer.report.mapping = {kDevice};
  return answer;
}

}  // namespace ferry
