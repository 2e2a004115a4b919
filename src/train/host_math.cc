#include "train/host_math.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "base/check.h"
#include "device/simulation.h"
#include "train/divergence.h"

namespace ferry {
namespace {

/// `count` elements of type T at byte `offset` of a span. Slots and layouts are 64-byte aligned.
template <typename T>
std::span<T> elements(std::span<std::byte> bytes, std::int64_t offset, std::int64_t count) {
  const auto part =
      bytes.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(count) * sizeof(T));
  return {reinterpret_cast<T*>(part.data()), static_cast<std::size_t>(count)};
}

/// Tells the hazard detector that this thread reads or writes a slot.
void touch(std::span<const std::byte> slot, bool write, const Task& task) {
  simdev_host_access(slot.data(), Bytes{static_cast<std::int64_t>(slot.size())}, write, task.name);
}

/// Slots laid out as W.b is, and as those elements of S.b are.
struct StateSlots {
  std::span<std::byte> weight, state;
  ElementRange of_state;
};

/// These elements of a block.
OptimizerState optimizer_state(Precision precision, const StateSlots& slots,
                               const ElementRange& range) {
  const bool split = precision == Precision::bf16;
  const MomentOffsets moments = moment_offsets(slots.of_state.count, precision);
  const std::int64_t at = range.first - slots.of_state.first, count = range.count;
  const auto m = elements<float>(slots.state, moments.exp_avg.count + at * 4, count);
  const auto v = elements<float>(slots.state, moments.exp_avg_sq.count + at * 4, count);
  if (!split) return FullState{elements<float>(slots.weight, range.first * 4, count), m, v};
  return SplitState{.hi = elements<std::uint16_t>(slots.weight, range.first * 2, count),
                    .lo = elements<std::uint16_t>(slots.state, at * 2, count),
                    .m = m,
                    .v = v};
}

template <typename T>
T read_scalar(std::span<const std::byte> bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

}  // namespace

HostMath::HostMath(const ModelSpec& model, const Plan& plan, const Binding& binding, double clip,
                   int update_threads)
    : model_(model),
      plan_(plan),
      binding_(binding),
      clip_(clip),
      operands_(operands_of(plan)),
      state_elements_(state_elements(plan)),
      ahead_(model.blocks.size()),
      team_(update_threads) {}

void HostMath::load(TaskId id, const StepNumbers& numbers) {
  const Task& task = plan_.tasks[id];
  const Batch& batch = numbers.batches[task.micro_batch];
  const auto slot = binding_.host(operands_[id][Part::tokens]);
  const auto count = static_cast<std::int64_t>(batch.ids.size());
  FERRY_CHECK(batch.ids.size() == batch.labels.size() && slot.size() == batch.ids.size() * 16,
              "a micro-batch fills its slot");
  touch(slot, true, task);
  std::ranges::copy(batch.ids, elements<std::int64_t>(slot, 0, count).begin());
  std::ranges::copy(batch.labels, elements<std::int64_t>(slot, count * 8, count).begin());
}

StepResult HostMath::clip(TaskId id, const StepNumbers& numbers) {
  const Task& task = plan_.tasks[id];
  StepResult result;
  // Summed by micro-batch and by block, in whatever order the strategy downloads them.
  std::map<int, double> losses;
  std::map<BlockId, double> squared_norms;
  for (const InstanceId read : task.reads) {
    const auto slot = binding_.host(read);
    touch(slot, false, task);
    const auto& value = plan_.values[plan_.instances[read].value];
    if (value.kind == ValueKind::loss) {
      losses[value.micro_batch] = static_cast<double>(read_scalar<float>(slot));
    } else {
      squared_norms[value.block] = read_scalar<double>(slot);
    }
  }
  for (const auto& [micro_batch, loss] : losses) result.loss += loss;
  double squared_norm = 0;
  for (const auto& [block, squared] : squared_norms) squared_norm += squared;
  result.grad_norm = std::sqrt(squared_norm);
  if (!std::isfinite(result.loss) || !std::isfinite(result.grad_norm)) {
    std::vector<int> bad;
    for (const auto& [micro_batch, loss] : losses) {
      if (!std::isfinite(loss)) bad.push_back(micro_batch);
    }
    throw Diverged("the loss is " + std::to_string(result.loss) + " and the gradient norm " +
                       std::to_string(result.grad_norm) + "; training has diverged",
                   numbers.step, std::move(bad));
  }
  const InstanceId scale = operands_[id][Part::clip];
  if (scale.valid()) {
    const auto slot = binding_.host(scale);
    touch(slot, true, task);
    result.scale =
        static_cast<float>(clip_ > 0 ? std::min(1.0, clip_ / (result.grad_norm + 1e-6)) : 1.0);
    std::memcpy(slot.data(), &result.scale, sizeof result.scale);
  }
  return result;
}

ElementRange HostMath::updated_by(TaskId id) const {
  return state_elements_[plan_.instances[operands_[id][Part::state]].value];
}

std::vector<HostMath::Touched> HostMath::touched_by(TaskId id) const {
  const BlockSpec& block = model_.blocks[plan_.tasks[id].block];
  const BlockLayout layout = layout_of(block);
  std::vector<Touched> touched;
  for (std::size_t i = 0; i < block.params.size(); ++i) {
    const ElementRange range = common({layout.offsets[i], block.params[i].numel()}, updated_by(id));
    if (range.count == 0) continue;
    touched.push_back({block.params[i], range, range.first - layout.offsets[i]});
  }
  return touched;
}

std::vector<Update> HostMath::updates_of(TaskId id) const {
  const Task& task = plan_.tasks[id];
  const bool again = task.kind == TaskKind::redo;
  const Operands& parts = operands_[id];
  const bool rounded = parts[Part::rounded].valid();
  const auto weight = binding_.host(parts[Part::weight]), state = binding_.host(parts[Part::state]),
             sum = binding_.host(parts[rounded ? Part::rounded : Part::gradient]);
  touch(weight, true, task);
  touch(state, true, task);
  touch(sum, false, task);
  std::span<std::byte> original;
  if (parts[Part::original].valid()) {
    original = binding_.host(parts[Part::original]);
    touch(original, !again, task);
  }

  std::vector<Update> updates;
  for (const Touched& touched : touched_by(id)) {
    const std::int64_t at = touched.range.first, count = touched.range.count;
    const auto state_in = [&](std::span<std::byte> weights, std::span<std::byte> states) {
      return optimizer_state(plan_.precision, {weights, states, updated_by(id)}, touched.range);
    };
    Update update{.state = state_in(weight, state),
                  .gradient = {},
                  .decay = touched.param.decays(),
                  .again = again};
    if (rounded) {
      update.gradient = std::span<const std::uint16_t>(elements<std::uint16_t>(sum, at * 2, count));
    } else {
      update.gradient = std::span<const float>(elements<float>(sum, at * 4, count));
    }
    if (!original.empty()) {
      update.original = state_in(original.first(weight.size()), original.subspan(weight.size()));
    }
    updates.push_back(update);
  }
  return updates;
}

void HostMath::update(TaskId id, const StepNumbers& numbers) {
  const Task& task = plan_.tasks[id];
  const InstanceId clip = operands_[id][Part::clip];
  const float scale = clip.valid() ? read_scalar<float>(binding_.host(clip)) : 1.0F;
  const auto bad = adamw_step(numbers.adamw, updates_of(id), scale, team_);
  if (operands_[id][Part::original].valid()) {
    ahead_[task.block] = {numbers.step, bad};
  } else if (bad) {
    refuse(*bad, id, numbers);
  }
}

void HostMath::redo(TaskId id, const StepNumbers& numbers) {
  const Task& task = plan_.tasks[id];
  const auto scale = read_scalar<float>(binding_.host(operands_[id][Part::clip]));
  auto bad = ahead_[task.block].bad;
  if (scale != 1.0F) bad = adamw_step(numbers.adamw, updates_of(id), scale, team_);
  if (bad) refuse(*bad, id, numbers);
}

bool HostMath::take_back(TaskId update, int step) {
  if (ahead_[plan_.tasks[update].block].step != step) return false;
  const Operands& parts = operands_[update];
  const auto weight = binding_.host(parts[Part::weight]), state = binding_.host(parts[Part::state]),
             original = binding_.host(parts[Part::original]);
  std::ranges::copy(original.first(weight.size()), weight.begin());
  std::ranges::copy(original.subspan(weight.size()), state.begin());
  return true;
}

void HostMath::refuse(const NonFinite& bad, TaskId id, const StepNumbers& numbers) const {
  const Touched touched = touched_by(id)[bad.update];
  const std::int64_t element = touched.first + static_cast<std::int64_t>(bad.element);
  throw Diverged(touched.param.name + " is no longer finite at element " + std::to_string(element) +
                     " after its update",
                 numbers.step);
}

}  // namespace ferry
