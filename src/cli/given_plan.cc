#include "cli/given_plan.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/error.h"
#include "plan/verify.h"
#include "spec/layout.h"

namespace ferry {
namespace {

constexpr const char* kAgain = "; make the plan again with ferry plan";

/// Of the devices and drives that there are a plan may use the first ones.
void require_places(const Plan& plan, const PlanQuestion& question, const std::string& file) {
  const auto& devices = question.machine.devices;
  std::size_t next = 0;
  for (const Place& place : plan.places) {
    if (place.kind != PlaceKind::device) continue;
    const std::string expected = next < devices.size() ? "'" + devices[next].name + "'" : "no more";
    if (next == devices.size() || place.name != devices[next].name) {
      throw UserError(file + ": the plan was made for a machine with other devices or drives: " +
                      "its device " + std::to_string(next + 1) + " is '" + place.name +
                      "', here it is " + expected + kAgain);
    }
    ++next;
  }
}

/// What the value takes; nothing of what is in parts, or measured.
std::optional<Bytes> expected_bytes(const Value& value, const PlanQuestion& question) {
  const ModelSpec& model = question.model;
  const BatchShape shape{question.micro_batch_size, question.sequence};
  const auto layout = [&] { return layout_of(model.blocks[value.block]); };
  switch (value.kind) {
    case ValueKind::weight:
    case ValueKind::state:  // of a block together: require_sizes()
    case ValueKind::saved:  // its forward says so
      return std::nullopt;
    case ValueKind::gradient:
      return gradient_bytes(gradient_layout_of(model, model.blocks[value.block]));
    case ValueKind::rounded:
      return rounded_bytes(layout());
    case ValueKind::original:
      return weight_bytes(layout(), question.precision) + state_bytes(layout(), question.precision);
    case ValueKind::norm:
      return 8_B;
    case ValueKind::activation:
    case ValueKind::activation_gradient:
      return activation_bytes(model, shape, Bytes{weight_element_bytes(question.precision)});
    case ValueKind::tokens:
      return tokens_bytes(shape);
    case ValueKind::loss:
    case ValueKind::clip:
      return 4_B;
  }
  return std::nullopt;
}

void require_sizes(const Plan& plan, const PlanQuestion& question, const std::string& file) {
  const auto require = [&](const std::string& value, Bytes found, Bytes expected) {
    if (found == expected) return;
    throw UserError(file + ": " + value + " has " + std::to_string(found.count) +
                    " bytes in the plan; expected " + std::to_string(expected.count) +
                    " of this model" + kAgain);
  };
  IdVector<BlockId, Bytes> weights(plan.blocks.size()), states(plan.blocks.size());
  for (const Value& value : plan.values) {
    if (value.kind == ValueKind::weight) weights[value.block] += value.bytes;
    if (const auto expected = expected_bytes(value, question)) {
      require(value_name(value), value.bytes, *expected);
    }
    if (value.kind != ValueKind::state) continue;
    states[value.block] += value.bytes;
    const std::int64_t unit = kTensorAlignment * state_element_bytes(plan.precision);
    if (value.bytes.count % unit == 0) continue;
    throw UserError(file + ": " + value_name(value) + " has " + std::to_string(value.bytes.count) +
                    " bytes; expected a multiple of " + std::to_string(unit) + kAgain);
  }
  for (const BlockId b : plan.blocks.ids()) {
    const BlockLayout layout = layout_of(question.model.blocks[b]);
    require("W." + to_string(b), weights[b], weight_bytes(layout, plan.precision));
    if (!plan.blocks[b].trainable) continue;
    require("S." + to_string(b), states[b], state_bytes(layout, plan.precision));
  }
}

/// Slots on devices end on multiples of 512 bytes.
void require_budgets(const Plan& plan, const std::string& file) {
  for (const PlaceId id : plan.places.ids()) {
    const Place& place = plan.places[id];
    const Bytes peak = peak_bytes(plan, id);
    if (peak <= place.budget) continue;
    throw UserError(file + ": '" + place.name + "' takes " + std::to_string(peak.count) +
                    " bytes of its budget of " + std::to_string(place.budget.count) + kAgain);
  }
}

/// Kernels read whole elements, of which the largest have 8 bytes.
void require_alignment(const Plan& plan, const std::string& file) {
  constexpr std::int64_t kLargestElement = 8;
  for (const InstanceId id : plan.instances.ids()) {
    const Bytes offset = plan.instances[id].offset;
    if (offset.count % kLargestElement == 0) continue;
    throw UserError(file + ": " + instance_name(plan, id) + " begins at byte " +
                    std::to_string(offset.count) + "; expected a multiple of " +
                    std::to_string(kLargestElement) + kAgain);
  }
}

}  // namespace

void require_same_question(const Plan& plan, const PlanQuestion& question,
                           const std::string& file) {
  const auto on_drives = std::ranges::count(plan.places, PlaceKind::drive, &Place::kind);
  if (on_drives > 0 && question.machine.drives.empty()) {
    throw UserError(file +
                    ": the plan rests values on drives, and the machine has no drives to train on"
                    "\n  try: a machine file whose drives have `path`, `read` and `write`, or plan "
                    "again");
  }
  if (plan.timing_only) {
    throw UserError(
        (file.empty() ? "this plan" : file) +
        ": only tells time and cannot train; leave papers.pure off and make a plan again");
  }
  if (plan.micro_batches != question.micro_batches ||
      plan.micro_batch_size != question.micro_batch_size || plan.sequence != question.sequence ||
      plan.precision != question.precision || plan.gradients != question.gradients ||
      plan.clips != question.clips || plan.mode != question.mode ||
      plan.blocks.size() != question.model.blocks.size()) {
    throw UserError(file +
                    ": the plan was made for another job (micro_batches, micro_batch_size, "
                    "sequence, precision, gradients, clip or model differ); make it again with "
                    "ferry plan");
  }
}

Plan read_given_plan(const std::string& file, const PlanQuestion& question) {
  Plan plan = read_plan(file);
  require_verified(plan, file);
  require_same_question(plan, question, file);
  require_places(plan, question, file);
  require_sizes(plan, question, file);
  require_alignment(plan, file);
  require_budgets(plan, file);
  return plan;
}

}  // namespace ferry
