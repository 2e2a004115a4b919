#include "plan/sample_plans.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "plan/plan_sketch.h"
#include "plan/task_signature.h"
#include "plan/verify.h"

namespace ferry {
namespace {

constexpr Bytes kActivation = 4096_B;
constexpr Bytes kTokens = 512_B;
constexpr Bytes kNorm = 8_B;
constexpr Bytes kLoss = 4_B;
constexpr Bytes kScale = 4_B;
constexpr double kLinkRate = 12e9;
constexpr Micros kLatency = {5};

// Slots of activations that take turns at a device: how far copies may run ahead.
constexpr std::size_t kTurns = 6;

std::string key(const char* kind, int block) { return kind + ("." + std::to_string(block)); }
std::string key(const char* kind, int block, int index) {
  return index < 0 ? key(kind, block) : key(kind, block) + "." + std::to_string(index);
}

// What both samples have in common: blocks, the machine, the host's side.
class Sample {
 public:
  explicit Sample(const SampleShape& shape);

 protected:
  struct Device {
    PlaceId place;
    ResourceId compute, weights_up, acts_up, down;
    SlotId scale;
  };

  int blocks() const { return static_cast<int>(sketch_.plan.blocks.size()); }
  bool trains() const { return shape_.mode == PlanMode::train; }
  bool is_head(int block) const { return block + 1 == blocks(); }
  bool trainable(int block) const { return sketch_.plan.blocks[BlockId(block)].trainable; }
  // The block whose weights `block` computes with.
  int weights_of(int block) const { return trainable(block) ? block : 0; }
  // The embedding and an untied head are larger than the blocks between them.
  Bytes weight_bytes(int block) const { return block == 0 || is_head(block) ? 8192_B : 6144_B; }

  ValueId weight(int block) { return sketch_.value(key("W", block), weight_bytes(block)); }
  ValueId state(int block, int piece = -1) {
    const int pieces = piece < 0 ? 1 : shape_.pieces;
    return sketch_.value(key("S", block, piece), Bytes{weight_bytes(block).count * 5 / pieces});
  }
  /// S.b, or its pieces.
  std::vector<int> pieces() const {
    if (shape_.pieces == 1) return {-1};
    std::vector<int> all(static_cast<std::size_t>(shape_.pieces));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  ValueId gradient(int block) { return sketch_.value(key("G", block), weight_bytes(block) * 2); }
  ValueId norm(int block) { return sketch_.value(key("N", block), kNorm); }
  ValueId input(int block, int m) {
    return block == 0 ? tokens(m) : sketch_.value(key("A", block, m), kActivation);
  }
  ValueId input_gradient(int block, int m) {
    return sketch_.value(key("dA", block, m), kActivation);
  }
  ValueId tokens(int m) { return sketch_.value(key("X", m), kTokens); }
  ValueId loss(int m) { return sketch_.value(key("L", m), kLoss); }
  ValueId scale() { return sketch_.value("C", kScale); }

  void add_device(int k);
  Task task(std::string name, TaskKind kind, ResourceId on, int block, int m, double micros) const;
  // Appends the task with what its signature says; `where` gives each value's place. Requires: all
  // weights are there.
  template <typename Where>
  void write(Task task, const Where& where) {
    if (!signatures_) signatures_.emplace(sketch_.plan);
    signatures_->write(task, /*keeps=*/false, where);
    sketch_.task(std::move(task));
  }
  ValueId value_of(const Access& access);
  void load_tokens();
  void clip();

  const SampleShape shape_;
  PlanSketch sketch_;
  PlaceId host_;
  ResourceId load_, update_;
  std::vector<Device> devices_;
  std::vector<SlotId> host_tokens_, host_losses_, host_norms_;  // by micro-batch, by block
  SlotId host_scale_;
  std::optional<TaskSignatures> signatures_;
};

Sample::Sample(const SampleShape& shape) : shape_(shape) {
  Plan& plan = sketch_.plan;
  plan.mode = shape.mode;
  plan.micro_batches = shape.micro_batches;
  plan.micro_batch_size = 2;
  plan.sequence = 64;
  plan.precision = Precision::bf16;
  plan.clips = trains();
  plan.blocks.push_back({"embedding", 0, true, false, {}});
  for (int layer = 0; layer < shape.layers; ++layer) {
    plan.blocks.push_back({"attention", 0, true, false, {}});
    plan.blocks.push_back({"mlp", 0, true, false, {}});
  }
  plan.blocks.push_back({"norm", 0, true, false, {}});
  plan.blocks.push_back({"head", 0, !shape.tied, true, BlockId(shape.tied ? 0 : -1)});

  const PoolId cores = sketch_.pool("cores", 2);
  sketch_.pool("root0.up", kLinkRate);
  sketch_.pool("root0.down", kLinkRate);
  host_ = sketch_.place("host", PlaceKind::host, 0_B);
  load_ = sketch_.resource({"host.load", ResourceKind::host, host_, 0, {}, {}});
  update_ = sketch_.resource({"host.update", ResourceKind::host, host_, 0, {}, {{cores, 2}}});
  for (int k = 0; k < shape.devices; ++k) add_device(k);

  for (int m = 0; m < shape.micro_batches; ++m) {
    host_tokens_.push_back(sketch_.slot(host_, kTokens));
    host_losses_.push_back(sketch_.slot(host_, kLoss));
  }
  for (int b = 0; b < blocks(); ++b) host_norms_.push_back(sketch_.slot(host_, kNorm));
  host_scale_ = sketch_.slot(host_, kScale);
}

void Sample::add_device(int k) {
  const std::string name = "gpu" + std::to_string(k);
  const PoolId up = sketch_.pool(name + ".up", kLinkRate);
  const PoolId down = sketch_.pool(name + ".down", kLinkRate);
  Device device;
  device.place = sketch_.place(name, PlaceKind::device, 2048_B);
  const auto link = [&](const char* what, PoolId own, PoolId root) {
    return sketch_.resource({name + what,
                             ResourceKind::copy,
                             device.place,
                             kLinkRate,
                             kLatency,
                             {{own, kLinkRate}, {root, kLinkRate}}});
  };
  device.compute = sketch_.resource(
      {name + ".compute", ResourceKind::compute, device.place, 0, {}, {{PoolId(0), 1}}});
  device.weights_up = link(".weights_up", up, PoolId(1));
  device.acts_up = link(".acts_up", up, PoolId(1));
  device.down = link(".down", down, PoolId(2));
  device.scale = sketch_.slot(device.place, kScale);
  devices_.push_back(device);
}

Task Sample::task(std::string name, TaskKind kind, ResourceId on, int block, int m,
                  double micros) const {
  Task made;
  made.name = std::move(name);
  made.kind = kind;
  made.resource = on;
  made.block = BlockId(block);
  made.micro_batch = m;
  made.micros = {micros};
  return made;
}

void Sample::load_tokens() {
  for (int m = 0; m < shape_.micro_batches; ++m) {
    write(task(key("X", m), TaskKind::load, load_, -1, m, 3.5),
          [&](const Access&, bool) { return sketch_.at(tokens(m), host_tokens_[m]); });
  }
}

void Sample::clip() {
  write(task("clip", TaskKind::clip, update_, -1, -1, 2), [&](const Access& access, bool) {
    const ValueKey& key = access.value;
    if (key.kind == ValueKind::norm) {
      return sketch_.at(norm(key.block.number()), host_norms_[key.block.index()]);
    }
    if (key.kind == ValueKind::clip) return sketch_.at(scale(), host_scale_);
    return sketch_.at(loss(key.micro_batch), host_losses_[key.micro_batch]);
  });
}

ValueId Sample::value_of(const Access& access) {
  const int block = access.value.block.number();
  switch (access.value.kind) {
    case ValueKind::weight:
      return weight(block);
    case ValueKind::state:
      return state(block, access.value.piece);
    case ValueKind::gradient:
      return gradient(block);
    case ValueKind::norm:
      return norm(block);
    case ValueKind::activation:
      return input(block, access.value.micro_batch);
    case ValueKind::activation_gradient:
      return input_gradient(block, access.value.micro_batch);
    case ValueKind::tokens:
      return tokens(access.value.micro_batch);
    case ValueKind::loss:
      return loss(access.value.micro_batch);
    case ValueKind::clip:
      return scale();
    case ValueKind::saved:
    case ValueKind::rounded:
    case ValueKind::original:
      break;
  }
  FERRY_UNREACHABLE("the samples keep and round nothing, and update nothing ahead");
}

class ResidentSample : Sample {
 public:
  explicit ResidentSample(const SampleShape& shape);
  Plan make();

 private:
  InstanceId device(ValueId value) { return sketch_.at(value, slot_of(value)); }
  auto on_device() {
    return [this](const Access& access, bool) { return device(value_of(access)); };
  }
  SlotId slot_of(ValueId value);
  void forward(int block, int m);
  void backward(int block, int m);

  IdVector<ValueId, SlotId> slots_;  // its own for good
};

ResidentSample::ResidentSample(const SampleShape& shape) : Sample(shape) {
  sketch_.plan.strategy = "resident";
  for (int b = 0; b < blocks(); ++b) {
    if (!trainable(b)) continue;
    sketch_.make_home(device(weight(b)));
    if (trains()) sketch_.make_home(device(state(b)));
  }
}

SlotId ResidentSample::slot_of(ValueId value) {
  if (!slots_.has(value)) slots_.resize(value.index() + 1);
  SlotId& slot = slots_[value];
  if (!slot.valid()) slot = sketch_.slot(devices_[0].place, sketch_.plan.values[value].bytes);
  return slot;
}

void ResidentSample::forward(int block, int m) {
  Task forward =
      task(key("F", block, m), TaskKind::forward, devices_[0].compute, block, m, 100.5 + block);
  forward.workspace = 1024_B;
  write(std::move(forward), on_device());
}

void ResidentSample::backward(int block, int m) {
  Task backward =
      task(key("B", block, m), TaskKind::backward, devices_[0].compute, block, m, 300.125 + block);
  backward.workspace = 2048_B;
  write(std::move(backward), on_device());
}

Plan ResidentSample::make() {
  load_tokens();
  for (int m = 0; m < shape_.micro_batches; ++m) {
    sketch_.copy(devices_[0].acts_up, sketch_.at(tokens(m), host_tokens_[m]), device(tokens(m)));
    for (int b = 0; b < blocks(); ++b) {
      if (!trains() || !is_head(b)) forward(b, m);
    }
    for (int b = blocks() - 1; b >= 0 && trains(); --b) backward(b, m);
    sketch_.copy(devices_[0].down, device(loss(m)), sketch_.at(loss(m), host_losses_[m]));
  }
  for (int b = 0; b < blocks() && trains(); ++b) {
    if (!trainable(b)) continue;
    sketch_.copy(devices_[0].down, device(norm(b)), sketch_.at(norm(b), host_norms_[b]));
  }
  clip();
  if (!trains()) return sketch_.finish();
  const InstanceId scale_here = sketch_.at(scale(), devices_[0].scale);
  sketch_.copy(devices_[0].weights_up, sketch_.at(scale(), host_scale_), scale_here);
  for (int b = 0; b < blocks(); ++b) {
    if (!trainable(b)) continue;
    write(task(key("U", b), TaskKind::update, devices_[0].compute, b, -1, 40.25),
          [&](const Access& access, bool) {
            return access.part == Part::clip ? scale_here : device(value_of(access));
          });
  }
  return sketch_.finish();
}

class MobiusSample : Sample {
 public:
  explicit MobiusSample(const SampleShape& shape);
  Plan make();

 private:
  // The slots of a device: two sets for the weights and gradients of the stage at work and the
  // next, and activations that take turns.
  struct Slots {
    std::vector<SlotId> weights[2], gradients[2];  // by block within its stage
    std::vector<SlotId> inputs, input_gradients;
    std::vector<SlotId> tokens, losses;  // by micro-batch
    SlotId norm, head_gradient;
    std::size_t next_input = 0, next_gradient = 0, visits = 0;
    std::vector<bool> has_tokens;  // by micro-batch, in this step
  };

  int stages() const { return sketch_.plan.blocks.back().stage + 1; }
  int device_of(int stage) const { return stage % shape_.devices; }
  Device& device(int stage) { return devices_[device_of(stage)]; }
  Slots& slots(int stage) { return slots_[device_of(stage)]; }
  int in_stage(int block) const { return block % shape_.blocks_per_stage; }
  InstanceId host(ValueId value);
  InstanceId bring_input(int block, int m, int stage);
  InstanceId bring_gradient(ValueId value, int stage);
  InstanceId next_input(ValueId value, int stage);
  InstanceId next_gradient(ValueId value, int stage);
  void bring_weights(int stage);
  InstanceId weights_at(int block, int stage);
  InstanceId gradient_at(int block, int stage);
  void forward_stage(int stage);
  void backward_stage(int stage);
  InstanceId forward(int block, int m, InstanceId input_here);
  InstanceId backward(int block, int m, InstanceId gradient_here);

  std::vector<Slots> slots_;  // by device
  IdVector<ValueId, SlotId> host_slots_;
};

MobiusSample::MobiusSample(const SampleShape& shape) : Sample(shape), slots_(shape.devices) {
  sketch_.plan.strategy = "mobius";
  for (int b = 0; b < blocks(); ++b) {
    sketch_.plan.blocks[BlockId(b)].stage = b / shape.blocks_per_stage;
    if (!trainable(b)) continue;
    sketch_.make_home(host(weight(b)));
    for (const int piece : pieces()) {
      if (trains()) sketch_.make_home(host(state(b, piece)));
    }
  }
  for (std::size_t k = 0; k < slots_.size(); ++k) {
    Slots& slots = slots_[k];
    const PlaceId place = devices_[k].place;
    for (int set = 0; set < 2; ++set) {
      for (int b = 0; b < shape.blocks_per_stage; ++b) {
        slots.weights[set].push_back(sketch_.slot(place, weight_bytes(0)));
        slots.gradients[set].push_back(sketch_.slot(place, weight_bytes(0) * 2));
      }
    }
    for (std::size_t i = 0; i < kTurns; ++i) {
      slots.inputs.push_back(sketch_.slot(place, kActivation));
      slots.input_gradients.push_back(sketch_.slot(place, kActivation));
    }
    for (int m = 0; m < shape.micro_batches; ++m) {
      slots.tokens.push_back(sketch_.slot(place, kTokens));
      slots.losses.push_back(sketch_.slot(place, kLoss));
    }
    slots.has_tokens.resize(shape.micro_batches);
    slots.norm = sketch_.slot(place, kNorm);
    slots.head_gradient = sketch_.slot(place, weight_bytes(0) * 2);
  }
}

// Every value has its own slot at the host.
InstanceId MobiusSample::host(ValueId value) {
  const Value kept = sketch_.plan.values[value];
  if (kept.kind == ValueKind::tokens) {
    return sketch_.at(value, host_tokens_[kept.micro_batch]);
  }
  if (kept.kind == ValueKind::loss) {
    return sketch_.at(value, host_losses_[kept.micro_batch]);
  }
  if (kept.kind == ValueKind::norm) {
    return sketch_.at(value, host_norms_[kept.block.index()]);
  }
  if (kept.kind == ValueKind::clip) return sketch_.at(value, host_scale_);
  if (!host_slots_.has(value)) host_slots_.resize(value.index() + 1);
  SlotId& slot = host_slots_[value];
  if (!slot.valid()) slot = sketch_.slot(host_, kept.bytes);
  return sketch_.at(value, slot);
}

InstanceId MobiusSample::next_input(ValueId value, int stage) {
  Slots& here = slots(stage);
  return sketch_.at(value, here.inputs[here.next_input++ % kTurns]);
}

InstanceId MobiusSample::next_gradient(ValueId value, int stage) {
  Slots& here = slots(stage);
  return sketch_.at(value, here.input_gradients[here.next_gradient++ % kTurns]);
}

InstanceId MobiusSample::bring_input(int block, int m, int stage) {
  if (block > 0) {
    const InstanceId here = next_input(input(block, m), stage);
    sketch_.copy(device(stage).acts_up, host(input(block, m)), here);
    return here;
  }
  Slots& at = slots(stage);
  const InstanceId here = sketch_.at(tokens(m), at.tokens[m]);
  if (!at.has_tokens[m]) {
    sketch_.copy(device(stage).acts_up, host(tokens(m)), here);
    at.has_tokens[m] = true;
  }
  return here;
}

InstanceId MobiusSample::bring_gradient(ValueId value, int stage) {
  const InstanceId here = next_gradient(value, stage);
  sketch_.copy(device(stage).acts_up, host(value), here);
  return here;
}

InstanceId MobiusSample::weights_at(int block, int stage) {
  return sketch_.at(weight(weights_of(block)),
                    slots(stage).weights[slots(stage).visits % 2][in_stage(block)]);
}

InstanceId MobiusSample::gradient_at(int block, int stage) {
  return sketch_.at(gradient(block),
                    slots(stage).gradients[slots(stage).visits % 2][in_stage(block)]);
}

void MobiusSample::bring_weights(int stage) {
  ++slots(stage).visits;
  for (int b = 0; b < blocks(); ++b) {
    if (sketch_.plan.blocks[BlockId(b)].stage != stage) continue;
    sketch_.copy(device(stage).weights_up, host(weight(weights_of(b))), weights_at(b, stage));
  }
}

InstanceId MobiusSample::forward(int block, int m, InstanceId input_here) {
  const int stage = block / shape_.blocks_per_stage;
  Task forward = task(key("F", block, m), TaskKind::forward, device(stage).compute, block, m,
                      100.5 + block % 7);
  forward.workspace = 1024_B;
  InstanceId output;
  write(std::move(forward), [&](const Access& access, bool) {
    switch (access.part) {
      case Part::tokens:
        return block == 0 ? input_here : bring_input(0, m, stage);
      case Part::input:
        return input_here;
      case Part::loss:
        return output = sketch_.at(loss(m), slots(stage).losses[m]);
      case Part::output:
        return output = next_input(input(block + 1, m), stage);
      default:
        return weights_at(block, stage);
    }
  });
  const ValueId made = is_head(block) ? loss(m) : input(block + 1, m);
  sketch_.copy(device(stage).down, output, host(made));
  return output;
}

void MobiusSample::forward_stage(int stage) {
  bring_weights(stage);
  for (int m = 0; m < shape_.micro_batches; ++m) {
    InstanceId input_here;
    for (int b = stage * shape_.blocks_per_stage;
         b < std::min(blocks(), (stage + 1) * shape_.blocks_per_stage); ++b) {
      if (trains() && is_head(b)) continue;
      if (!input_here.valid()) input_here = bring_input(b, m, stage);
      input_here = forward(b, m, input_here);
    }
  }
}

// Returns where the gradient of the block's input lies; none for the embedding.
InstanceId MobiusSample::backward(int block, int m, InstanceId gradient_here) {
  const int stage = block / shape_.blocks_per_stage;
  const bool is_last = m + 1 == shape_.micro_batches;
  Device& here = device(stage);
  Task backward =
      task(key("B", block, m), TaskKind::backward, here.compute, block, m, 300.125 + block % 5);
  backward.workspace = 2048_B;
  const InstanceId input_here = bring_input(block, m, stage);
  const InstanceId made = block > 0 ? next_gradient(input_gradient(block, m), stage) : InstanceId();
  const InstanceId loss_here = sketch_.at(loss(m), slots(stage).losses[m]);
  const auto bring_head_gradient = [&](ValueId head) {
    const InstanceId head_here = sketch_.at(head, slots(stage).head_gradient);
    sketch_.copy(here.weights_up, host(head), head_here);
    return head_here;
  };
  write(std::move(backward), [&](const Access& access, bool) {
    switch (access.part) {
      case Part::tokens:
        return block == 0 ? input_here : bring_input(0, m, stage);
      case Part::input:
        return input_here;
      case Part::output_gradient:
        return gradient_here;
      case Part::input_gradient:
        return made;
      case Part::loss:
        return loss_here;
      case Part::gradient:
        return gradient_at(block, stage);
      case Part::tied_gradient:
        return bring_head_gradient(value_of(access));
      case Part::norm:
        return sketch_.at(norm(block), slots(stage).norm);
      default:
        return weights_at(block, stage);
    }
  });
  const InstanceId norm_here = sketch_.at(norm(block), slots(stage).norm);
  if (is_head(block)) sketch_.copy(here.down, loss_here, host(loss(m)));
  if (is_last) sketch_.copy(here.down, gradient_at(block, stage), host(gradient(block)));
  if (is_last && trainable(block)) sketch_.copy(here.down, norm_here, host(norm(block)));
  return made;
}

void MobiusSample::backward_stage(int stage) {
  bring_weights(stage);
  const int first = stage * shape_.blocks_per_stage;
  const int last = std::min(blocks(), first + shape_.blocks_per_stage) - 1;
  for (int m = 0; m < shape_.micro_batches; ++m) {
    InstanceId gradient_here;
    if (!is_head(last)) gradient_here = bring_gradient(input_gradient(last + 1, m), stage);
    for (int b = last; b >= first; --b) gradient_here = backward(b, m, gradient_here);
    if (first > 0) {
      sketch_.copy(device(stage).down, gradient_here, host(input_gradient(first, m)));
    }
  }
}

Plan MobiusSample::make() {
  load_tokens();
  for (int stage = 0; stage < stages(); ++stage) forward_stage(stage);
  for (int stage = stages() - 1; stage >= 0 && trains(); --stage) backward_stage(stage);
  clip();
  for (int b = 0; b < blocks() && trains(); ++b) {
    if (!trainable(b)) continue;
    for (const int piece : pieces()) {
      Task update = task(key("U", b, piece), TaskKind::update, update_, b, -1, 40.25);
      update.piece = piece;
      write(std::move(update), [&](const Access& access, bool) { return host(value_of(access)); });
    }
  }
  return sketch_.finish();
}

}  // namespace

Plan sample_resident(const SampleShape& shape) { return ResidentSample(shape).make(); }

Plan sample_mobius(const SampleShape& shape) { return MobiusSample(shape).make(); }

std::string found_in(const Plan& plan) {
  const auto violation = verify(plan);
  if (!violation) return "nothing";
  return std::to_string(static_cast<int>(violation->rule)) + ": " + violation->message;
}

TaskId task_named(const Plan& plan, std::string_view name) {
  const auto task = std::ranges::find(plan.tasks, name, &Task::name);
  FERRY_CHECK(task != plan.tasks.end(), "no task " + std::string(name));
  return plan.tasks.id_of(task);
}

}  // namespace ferry
