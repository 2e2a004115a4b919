#include "cli/tables.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "cli/print.h"

namespace ferry {
namespace {

using Json = nlohmann::ordered_json;

/// The rows of the table: what a byte of a place is for, in the order in which shared bytes count.
enum class Purpose { weights, optimizer, gradients, activations, tokens, workspace };

constexpr std::array<std::pair<Purpose, const char*>, 6> kPurposes = {{
    {Purpose::weights, "weights"},
    {Purpose::optimizer, "optimizer state"},
    {Purpose::gradients, "gradients"},
    {Purpose::activations, "activations"},
    {Purpose::tokens, "tokens, scalars"},
    {Purpose::workspace, "workspace"},
}};

Purpose purpose_of(ValueKind kind) {
  switch (kind) {
    case ValueKind::weight:
      return Purpose::weights;
    case ValueKind::state:
      return Purpose::optimizer;
    case ValueKind::gradient:
      return Purpose::gradients;
    case ValueKind::activation:
    case ValueKind::activation_gradient:
      return Purpose::activations;
    case ValueKind::norm:
    case ValueKind::tokens:
    case ValueKind::loss:
    case ValueKind::clip:
      break;
  }
  return Purpose::tokens;
}

/// The bytes of one place by purpose. Slots that share bytes at different times count once, for the
/// first purpose in the table that uses them; so a column adds up to the place's peak.
std::map<Purpose, Bytes> bytes_by_purpose(const Plan& plan, PlaceId place) {
  struct Slot {
    Bytes begin, end;
    Purpose purpose;
  };
  std::vector<Slot> slots;
  for (const Instance& instance : plan.instances) {
    if (instance.place != place) continue;
    const Value& value = plan.values[static_cast<std::size_t>(instance.value)];
    slots.push_back({instance.offset, instance.offset + value.bytes, purpose_of(value.kind)});
  }
  std::ranges::sort(slots, {}, &Slot::begin);
  std::map<Purpose, Bytes> sums;
  sums[Purpose::workspace] = plan.places[static_cast<std::size_t>(place)].workspace;
  std::map<Bytes, int> edges;  // where something begins or ends
  for (const Slot& slot : slots) edges[slot.begin] = edges[slot.end] = 0;
  std::vector<const Slot*> open;
  std::size_t next = 0;
  for (auto edge = edges.begin(); edge != edges.end() && std::next(edge) != edges.end(); ++edge) {
    std::erase_if(open, [&](const Slot* slot) { return slot->end <= edge->first; });
    while (next < slots.size() && slots[next].begin <= edge->first) open.push_back(&slots[next++]);
    if (open.empty()) continue;
    const Slot* first = *std::ranges::min_element(open, {}, &Slot::purpose);
    sums[first->purpose] += std::next(edge)->first - edge->first;
  }
  return sums;
}

struct StageRow {
  std::vector<int> blocks;
  std::string device;
};

/// Which blocks run together, and where.
std::vector<StageRow> stages_of(const Plan& plan) {
  std::vector<StageRow> stages;
  for (BlockId b = 0; b < static_cast<BlockId>(plan.blocks.size()); ++b) {
    const auto stage = static_cast<std::size_t>(plan.blocks[static_cast<std::size_t>(b)].stage);
    if (stages.size() <= stage) stages.resize(stage + 1);
    stages[stage].blocks.push_back(b);
  }
  for (const Task& task : plan.tasks) {
    if (task.kind != TaskKind::forward && task.kind != TaskKind::backward) continue;
    const auto stage =
        static_cast<std::size_t>(plan.blocks[static_cast<std::size_t>(task.block)].stage);
    const PlaceId place = plan.resources[static_cast<std::size_t>(task.resource)].place;
    stages[stage].device = plan.places[static_cast<std::size_t>(place)].name;
  }
  return stages;
}

Bytes limit_of(const PlanQuestion& question, const Place& place) {
  return place.kind == PlaceKind::device ? question.device_budget : question.host_budget;
}

double tokens_per_second(const Plan& plan, Micros step) {
  const double tokens = 1.0 * plan.micro_batches * plan.micro_batch_size * plan.sequence;
  return step.count > 0 ? tokens / step.seconds() : 0;
}

std::string duration(double seconds) {
  const auto whole = static_cast<long>(seconds);
  if (whole >= 3600) return print("%ldh%02ldm", whole / 3600, whole / 60 % 60);
  if (whole >= 60) return print("%ldm%02lds", whole / 60, whole % 60);
  return print("%lds", whole);
}

}  // namespace

std::string plan_table(const PlanQuestion& question, const Planned& planned) {
  const Plan& plan = planned.plan;
  std::vector<std::map<Purpose, Bytes>> columns;
  std::string text = print("%-18s", "");
  for (PlaceId id = 0; id < static_cast<PlaceId>(plan.places.size()); ++id) {
    text += print(" %12s", plan.places[static_cast<std::size_t>(id)].name.c_str());
    columns.push_back(bytes_by_purpose(plan, id));
  }
  text += "\n";
  for (const auto& [purpose, name] : kPurposes) {
    text += print("%-18s", name);
    for (auto& column : columns) {
      const Bytes bytes = column[purpose];
      text += print(" %12s", bytes.count > 0 ? to_string(bytes).c_str() : "");
    }
    text += "\n";
  }
  for (const char* row : {"free", "budget"}) {
    text += print("%-18s", row);
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const Bytes limit = limit_of(question, plan.places[i]);
      const Bytes shown = row[0] == 'b' ? limit : limit - planned.prediction.peak[i];
      text += print(" %12s", to_string(shown).c_str());
    }
    text += "\n";
  }
  const auto stages = stages_of(plan);
  text += print("strategy %s, %zu stage%s on %zu device%s, %zu blocks, %zu tasks per step\n",
                plan.strategy.c_str(), stages.size(), stages.size() == 1 ? "" : "s",
                question.machine.devices.size(), question.machine.devices.size() == 1 ? "" : "s",
                plan.blocks.size(), plan.tasks.size());
  const Micros step = planned.prediction.step;
  text += print("step %s predicted (bound %s, critical: %s), %.0f tokens/s\n",
                to_string(step).c_str(), to_string(planned.lower_bound).c_str(),
                planned.prediction.busiest_name.c_str(), tokens_per_second(plan, step));
  return text;
}

std::string plan_json(const PlanQuestion& question, const Planned& planned) {
  const Plan& plan = planned.plan;
  Json object;
  object["fits"] = true;
  object["strategy"] = plan.strategy;
  object["step_seconds"] = planned.prediction.step.seconds();
  object["lower_bound_seconds"] = planned.lower_bound.seconds();
  object["gap"] = planned.lower_bound.count > 0
                      ? planned.prediction.step.count / planned.lower_bound.count - 1
                      : 0.0;
  object["critical"] = planned.prediction.busiest_name;
  object["tokens_per_second"] = tokens_per_second(plan, planned.prediction.step);
  object["stages"] = Json::array();
  for (const StageRow& stage : stages_of(plan)) {
    object["stages"].push_back({{"device", stage.device}, {"blocks", stage.blocks}});
  }
  object["places"] = Json::object();
  for (PlaceId id = 0; id < static_cast<PlaceId>(plan.places.size()); ++id) {
    const Place& place = plan.places[static_cast<std::size_t>(id)];
    Json row;
    for (const auto& [purpose, bytes] : bytes_by_purpose(plan, id)) {
      for (const auto& [listed, name] : kPurposes) {
        if (listed == purpose) row[name] = bytes.count;
      }
    }
    row["peak"] = planned.prediction.peak[static_cast<std::size_t>(id)].count;
    row["budget"] = limit_of(question, place).count;
    object["places"][place.name] = row;
  }
  object["candidates"] = Json::array();
  for (const Candidate& candidate : planned.candidates) {
    object["candidates"].push_back({{"strategy", candidate.strategy},
                                    {"fits", candidate.fits},
                                    {"step_seconds", candidate.step.seconds()},
                                    {"remark", candidate.remark}});
  }
  return object.dump(2) + "\n";
}

std::string does_not_fit_json(const DoesNotFit& answer) {
  Json object{{"fits", false},
              {"place", answer.place},
              {"need_bytes", answer.need.count},
              {"have_bytes", answer.have.count},
              {"limit", answer.limit_source},
              {"breakdown", Json::object()},
              {"remedies", Json::array()}};
  for (const auto& [what, bytes] : answer.breakdown) object["breakdown"][what] = bytes.count;
  for (const Remedy& remedy : answer.remedies) {
    object["remedies"].push_back(
        {{"change", remedy.change}, {"step_seconds", remedy.step.seconds()}});
  }
  return object.dump(2) + "\n";
}

std::string does_not_fit_text(const DoesNotFit& answer) {
  std::string text = print("does not fit: %s needs %s, has %s (%s)\n", answer.place.c_str(),
                           to_string(answer.need).c_str(), to_string(answer.have).c_str(),
                           answer.limit_source.c_str());
  for (const auto& [what, bytes] : answer.breakdown) {
    text += print("  %-58s %12s\n", what.c_str(), to_string(bytes).c_str());
  }
  if (!answer.remedies.empty()) text += "fits with\n";
  for (const Remedy& remedy : answer.remedies) {
    text += print("  %-58s step %s\n", remedy.change.c_str(), to_string(remedy.step).c_str());
  }
  return text;
}

std::string step_line(const StepReport& report) {
  std::string text =
      print("step %6d/%d  loss %8.4f  lr %.2e  norm %8.3f  %7.0f tok/s", report.step, report.steps,
            report.loss, report.lr, report.grad_norm,
            report.step_seconds > 0 ? static_cast<double>(report.tokens) / report.step_seconds : 0);
  for (const auto& [place, bytes] : report.peak_bytes) {
    text += print("  %s %s", place.c_str(), to_string(bytes).c_str());
  }
  text +=
      print("  stall %2.0f%%  left %s", report.stall * 100, duration(report.seconds_left).c_str());
  return text;
}

std::string summary_table(const TrainSummary& summary, Micros predicted_step) {
  std::string text = print("%-18s %14s %14s %9s\n", "", "predicted", "measured", "ratio");
  const auto row = [&](const std::string& name, const std::string& predicted,
                       const std::string& measured, double ratio) {
    text +=
        print("%-18s %14s %14s %9.3f\n", name.c_str(), predicted.c_str(), measured.c_str(), ratio);
  };
  if (summary.measured_step.count > 0) {
    row("step", to_string(predicted_step), to_string(summary.measured_step),
        summary.measured_step.count / predicted_step.count);
  }
  for (const auto& [place, predicted] : summary.predicted_peak) {
    const Bytes measured = summary.measured_peak.at(place);
    row("peak " + place, to_string(predicted), to_string(measured),
        static_cast<double>(measured.count) / static_cast<double>(predicted.count));
  }
  return text;
}

}  // namespace ferry
