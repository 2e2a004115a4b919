// Strategy `resident`: weights, states, gradients and one micro-batch's activations stay on the
// first device; nothing is copied but tokens, norms, losses and the gradient scale.
#include "planner/strategies/resident.h"

#include <array>

#include "planner/strategies/passes.h"
#include "planner/write/activation_policy.h"
#include "planner/write/builder.h"
#include "spec/pass_names.h"

namespace ferry {
namespace {

constexpr int kDevice = 0;

// How backwards list what they read and write.
constexpr std::array kBackwardOrder = {
    Part::weight, Part::tied_weight,     Part::input,    Part::tokens,
    Part::saved,  Part::output_gradient, Part::gradient, Part::tied_gradient,
    Part::loss,   Part::input_gradient,  Part::norm};

class ResidentPlan {
 public:
  ResidentPlan(const PlanQuestion& question, const Chain& chain, const ActivationPolicies& policies)
      : question_(question),
        chain_(chain),
        policies_(policies),
        builder_(question, chain, "resident", {kBackwardOrder, Part::weight}, 1) {}

  Plan write() {
    place_values();
    for (int m = 0; m < question_.micro_batches; ++m) micro_batch(m);
    if (question_.mode == PlanMode::train) {
      update();
    } else {
      collect({});
    }
    builder_.settle({}, 1);
    return builder_.finish();
  }

 private:
  PlaceId device() const { return builder_.device(kDevice).place; }
  PlaceId host() const { return builder_.queues().host; }
  int blocks() const { return static_cast<int>(chain_.size()); }
  const ChainBlock& block(int b) const { return chain_.blocks[b]; }

  Bytes take(Bytes& end, Bytes size, Bytes alignment) {
    const Bytes offset = round_up(end, alignment);
    end = offset + size;
    return offset;
  }

  InstanceId on_device(ValueKind kind, BlockId b, int m) {
    const ValueId value = builder_.value(kind, b, m);
    return builder_.instance(value, device(),
                             take(device_end_, builder_.bytes(value), kSlotAlignment));
  }

  // Small values that cross to the host or come from it.
  InstanceId on_host(ValueKind kind, BlockId b, int m) {
    const ValueId value = builder_.value(kind, b, m);
    return builder_.instance(value, host(), take(host_end_, builder_.bytes(value), kSlotAlignment));
  }

  void place_values() {
    device_end_ = builder_.lay_out_home(device());
    gradients_.resize(chain_.size());
    if (question_.mode == PlanMode::train) {
      for (int b = 0; b < blocks(); ++b) {
        if (block(b).gradients > Bytes{}) {
          gradients_[b] = on_device(ValueKind::gradient, b, -1);
        }
      }
    }
    host_norms_.resize(chain_.size());
    activation_slots_.resize(chain_.size());
    for (int b = 1; b < blocks(); ++b) {
      activation_slots_[b] = take(device_end_, chain_.activation, kSlotAlignment);
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
      saved_slots_[b] = take(device_end_, block(b).saved, kSlotAlignment);
    }
  }

  InstanceId tokens(int m) {
    return builder_.instance(builder_.value(ValueKind::tokens, -1, m), device(),
                             token_slots_[m % 2]);
  }

  InstanceId activation(int b, int m) {
    return builder_.instance(builder_.value(ValueKind::activation, b, m), device(),
                             activation_slots_[b]);
  }

  InstanceId activation_gradient(int b, int m) {
    return builder_.instance(builder_.value(ValueKind::activation_gradient, b, m), device(),
                             gradient_slots_[b % 2]);
  }

  InstanceId saved(int b, int m) {
    return builder_.instance(builder_.value(ValueKind::saved, b, m), device(), saved_slots_[b]);
  }

  // Where a forward or backward finds a value, or leaves it; losses and norms get new slots.
  InstanceId where(const ValueKey& value) {
    const auto [kind, b, m] = value;
    switch (kind) {
      case ValueKind::gradient:
        return gradients_[b];
      case ValueKind::tokens:
        return tokens(m);
      case ValueKind::activation:
        return activation(b, m);
      case ValueKind::activation_gradient:
        return activation_gradient(b, m);
      case ValueKind::saved:
        return saved(b, m);
      case ValueKind::loss:
        return loss_ = on_device(kind, b, m);
      case ValueKind::norm:
        return norm_ = on_device(kind, b, m);
      default:
        return builder_.home(kind, b);
    }
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
    losses_.push_back(on_host(ValueKind::loss, {}, m));
    builder_.copy(builder_.device(kDevice).acts_down, loss_, losses_.back());
  }

  void forward(int b, int m) { builder_.forward(b, m, kDevice, saves(policies_, b), where_); }

  void backward(int b, int m) {
    norm_ = {};
    builder_.backward(b, m, kDevice, saves(policies_, b), where_);
    if (!norm_.valid()) return;
    host_norms_[b] = on_host(ValueKind::norm, b, -1);
    builder_.copy(builder_.device(kDevice).acts_down, norm_, host_norms_[b]);
  }

  /// The step's loss and norm, and its gradient scale when there is one.
  void collect(InstanceId scale) {
    builder_.clip([&](const Access& access, bool) {
      if (access.part == Part::norm) return host_norms_[access.value.block];
      return access.part == Part::loss ? losses_[access.value.micro_batch] : scale;
    });
  }

  void update() {
    InstanceId scale;
    if (question_.clips) {
      const InstanceId made = on_host(ValueKind::clip, {}, -1);
      collect(made);
      scale = on_device(ValueKind::clip, {}, -1);
      builder_.copy(builder_.device(kDevice).weights_up, made, scale);
    } else {
      collect({});
    }
    for (int b = 0; b < blocks(); ++b) {
      if (!block(b).trainable) continue;
      builder_.update(b, builder_.device(kDevice).compute, gradients_[b], scale);
    }
  }

  const PlanQuestion& question_;
  const Chain& chain_;
  const ActivationPolicies& policies_;
  PlanBuilder builder_;
  Bytes device_end_;
  Bytes host_end_;
  const PlanBuilder::Where where_ = [this](const Access& access, bool) {
    return where(access.value);
  };
  InstanceId loss_;  // the latest, on the device
  InstanceId norm_;  // likewise
  IdVector<BlockId, InstanceId> gradients_;
  IdVector<BlockId, Bytes> activation_slots_;  // of one micro-batch
  IdVector<BlockId, Bytes> saved_slots_;       // likewise
  Bytes gradient_slots_[2];
  Bytes token_slots_[2];
  IdVector<BlockId, InstanceId> host_norms_;
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
