#include "cli/drive_wear.h"

#include <map>
#include <set>

#include "cli/print.h"
#include "report/report.h"
#include "spec/drive_array.h"

namespace ferry {
namespace {

constexpr double kWorthAWord = 0.01;  // of what the drives are rated for

// What rests of a value, as drive_homes_line() lists it.
const char* resting(ValueKind kind) {
  switch (kind) {
    case ValueKind::weight:
      return "weights";
    case ValueKind::state:
      return "optimizer states";
    case ValueKind::gradient:
      return "gradient sums";
    default:
      return "activations";
  }
}

// What the drives must hold; a place of a plan that only tells time has no end.
Bytes needed(const Plan& plan, const Place& place) { return plan.timing_only ? 0_B : place.budget; }

}  // namespace

std::optional<DriveWear> drive_wear(const Machine& machine, const Plan& plan) {
  const std::vector<DriveUse> uses = drive_use(plan);
  if (uses.empty()) return std::nullopt;
  const DriveUse& use = uses.front();  // a machine's drives are one place
  const Place& place = plan.places[use.place];
  DriveWear wear{place.name,   use.read,
                 use.written,  drive_array(machine, needed(plan, place)).endurance,
                 std::nullopt, std::nullopt};
  wear.life_steps = drive_life_steps(use, wear.endurance);
  if (!wear.life_steps || plan.timing_only) return wear;
  wear.life_positions =
      *wear.life_steps * plan.micro_batches * plan.micro_batch_size * plan.sequence;
  return wear;
}

std::string wear_line(const DriveWear& wear) {
  std::string text = print("%s: %s read, %s written per step", wear.name.c_str(),
                           to_string(wear.read).c_str(), to_string(wear.written).c_str());
  if (wear.life_steps) {
    text += print("; rated for %.0f such steps", *wear.life_steps);
    if (wear.life_positions) text += print(", %.3g positions", *wear.life_positions);
  }
  return text + "\n";
}

std::string wear_warning(const DriveWear& wear, std::int64_t steps) {
  if (!wear.life_steps || steps <= 0) return "";
  const double share = static_cast<double>(steps) / *wear.life_steps;
  if (share <= kWorthAWord) return "";
  return print("%lld steps write %s to %s: %.0f%% of the %s that they are rated for",
               static_cast<long long>(steps), to_string(wear.written * steps).c_str(),
               wear.name.c_str(), share * 100, to_string(*wear.endurance).c_str());
}

std::string drive_homes_line(const Plan& plan) {
  std::map<ValueKind, std::set<BlockId>> blocks;
  for (const Instance& instance : plan.instances) {
    if (plan.places[instance.place].kind != PlaceKind::drive) continue;
    const Value& value = plan.values[instance.value];
    const bool activation = value.kind == ValueKind::activation || value.kind == ValueKind::saved;
    blocks[activation ? ValueKind::activation : value.kind].insert(value.block);
  }
  std::string text;
  for (const auto& [kind, of] : blocks) {
    text += print("%s%s of %zu", text.empty() ? "" : ", ", resting(kind), of.size());
  }
  if (text.empty()) return "";
  return print("on the drives rest, of %zu blocks: ", plan.blocks.size()) + text + "\n";
}

}  // namespace ferry
