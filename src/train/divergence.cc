#include "train/divergence.h"

#include <algorithm>
#include <cstdint>
#include <span>

#include "data/float_formats.h"
#include "spec/layout.h"
#include "train/operands.h"

namespace ferry {
namespace {

constexpr std::int64_t kPieceElements = 1 << 20;  // looked at, at once: memory is short here
constexpr std::size_t kRowsNamed = 32;

/// `count` elements of a sum from element `first` on, wherever it lives; `rounded`: bf16, else
/// fp32.
bool is_finite(const Binding& binding, InstanceId id, bool rounded, std::int64_t first,
               std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(std::min(kPieceElements, count)));
  std::vector<std::uint16_t> halves(rounded ? values.size() : 0);
  for (std::int64_t done = 0; done < count; done += kPieceElements) {
    const auto length = static_cast<std::size_t>(std::min(kPieceElements, count - done));
    const auto piece = std::span(values).first(length);
    if (rounded) {
      const auto bits = std::span(halves).first(length);
      binding.read(id, 2_B * (first + done), std::as_writable_bytes(bits));
      widen_bf16(bits, piece);
    } else {
      binding.read(id, 4_B * (first + done), std::as_writable_bytes(piece));
    }
    if (first_not_finite(piece)) return false;
  }
  return true;
}

/// What the search for a gradient asks of a plan again and again, block by block.
struct PlanParts {
  explicit PlanParts(const Plan& plan)
      : operands(operands_of(plan)), writers(plan.instances.size()) {
    for (const TaskId id : plan.tasks.ids()) {
      for (const InstanceId write : plan.tasks[id].writes) writers[write].push_back(id);
    }
  }

  IdVector<TaskId, Operands> operands;
  IdVector<InstanceId, std::vector<TaskId>> writers;
};

/// Where the sum that an update is going to read lies: at the update, or, when it was not copied
/// there yet, where it is copied from.
std::optional<InstanceId> gradient_before(TaskId update, const Plan& plan, const PlanParts& of_plan,
                                          const LastRuns& ran, int step) {
  if (ran[update] >= step) return std::nullopt;  // its slot may hold something else by now
  const Operands& parts = of_plan.operands[update];
  const InstanceId rounded = parts[Part::rounded];
  InstanceId instance = rounded.valid() ? rounded : parts[Part::gradient];
  for (std::size_t hops = 0; hops < plan.places.size() + 1; ++hops) {
    const auto& writers = of_plan.writers[instance];
    const auto has_run = [&](TaskId id) { return ran[id] == step; };
    if (std::ranges::all_of(writers, has_run)) return instance;
    if (writers.size() != 1 || plan.tasks[writers.front()].kind != TaskKind::copy) break;
    instance = plan.tasks[writers.front()].reads.front();
  }
  return std::nullopt;
}

std::optional<std::string> bad_part(const BlockSpec& block, const Plan& plan,
                                    const Binding& binding, InstanceId gradient) {
  const BlockLayout layout = layout_of(block);
  const bool rounded = plan.values[plan.instances[gradient].value].kind == ValueKind::rounded;
  for (std::size_t i = 0; i < block.params.size(); ++i) {
    if (!is_finite(binding, gradient, rounded, layout.offsets[i], block.params[i].numel())) {
      return block.params[i].name;
    }
  }
  return std::nullopt;
}

}  // namespace

bool is_untouched(const Plan& plan, const LastRuns& ran, int done) {
  return std::ranges::none_of(plan.tasks.ids(), [&](TaskId id) {
    return ran[id] >= done && std::ranges::any_of(plan.tasks[id].writes, [&](InstanceId write) {
             return plan.instances[write].home;
           });
  });
}

std::optional<std::string> first_bad_gradient(const ModelSpec& model, const Plan& plan,
                                              const Binding& binding, const LastRuns& ran,
                                              int step) {
  IdVector<BlockId, TaskId> updates(plan.blocks.size());
  for (const TaskId id : plan.tasks.ids()) {
    const Task& task = plan.tasks[id];
    const bool updates_last = task.kind == TaskKind::update || task.kind == TaskKind::redo;
    if (updates_last) updates[task.block] = id;
  }
  const PlanParts of_plan(plan);
  for (auto b = updates.size(); b-- > 0;) {
    const BlockId block{b};
    if (!updates[block].valid()) continue;
    const auto gradient = gradient_before(updates[block], plan, of_plan, ran, step);
    if (!gradient) continue;
    if (auto name = bad_part(model.blocks[block], plan, binding, *gradient)) return name;
  }
  return std::nullopt;
}

std::string rows_text(Batches& batches, const Diverged& error) {
  const bool some = !error.micro_batches().empty();
  std::vector<std::int64_t> rows;
  for (int m = 0; m < batches.micro_batches(); ++m) {
    if (some && std::ranges::count(error.micro_batches(), m) == 0) continue;
    const auto samples = batches.samples(error.step(), m);
    rows.insert(rows.end(), samples.begin(), samples.end());
  }
  std::string text = some ? "rows whose loss is not finite:" : "rows of the step:";
  for (std::size_t i = 0; i < std::min(rows.size(), kRowsNamed); ++i) {
    text += (i > 0 ? ", " : " ") + std::to_string(rows[i] + 1);
  }
  const std::size_t left = rows.size() - std::min(rows.size(), kRowsNamed);
  return text + (left > 0 ? " and " + std::to_string(left) + " more" : "");
}

std::optional<std::string> first_bad_state(const ModelSpec& model, const HomeStates& states) {
  std::vector<float> piece(kPieceElements);
  for (const BlockId block : model.blocks.ids()) {
    const auto& params = model.blocks[block].params;
    for (std::size_t i = 0; i < params.size(); ++i) {
      for (std::int64_t begin = 0; begin < params[i].numel(); begin += kPieceElements) {
        const auto count = std::min(kPieceElements, params[i].numel() - begin);
        const auto values = std::span(piece).first(static_cast<std::size_t>(count));
        for (const StatePart part :
             {StatePart::master, StatePart::exp_avg, StatePart::exp_avg_sq}) {
          states.read(part, {block, i, begin}, values);
          if (first_not_finite(values)) return params[i].name;
        }
      }
    }
  }
  return std::nullopt;
}

}  // namespace ferry
