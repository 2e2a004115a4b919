#include "cli/plan_tables.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/json.h"
#include "cli/drive_wear.h"
#include "cli/print.h"
#include "cli/task_json.h"
#include "plan/at_home.h"
#include "plan/purposes.h"
#include "planner/write/activation_policy.h"
#include "report/report.h"

namespace ferry {
namespace {

using Json = nlohmann::ordered_json;

Bytes limit_of(const PlanQuestion& question, const Place& place) {
  if (place.kind == PlaceKind::drive || question.shared) return place.budget;
  if (place.kind == PlaceKind::host) return question.host_budget;
  const auto& devices = question.machine.devices;
  const auto device = std::ranges::find(devices, place.name, &MachineDevice::name);
  return device_budget(question, static_cast<int>(device - devices.begin())).bytes;
}

std::optional<double> positions_per_second(const PlanQuestion& question, Micros step) {
  const std::optional<double> tokens = tokens_of(question);
  if (!tokens) return std::nullopt;
  return step.count > 0 ? *tokens / step.seconds() : 0;
}

Json or_null(std::optional<double> value) { return value ? Json(*value) : Json(nullptr); }

Json seconds_or_null(std::optional<Micros> time) {
  return time ? Json(time->seconds()) : Json(nullptr);
}

std::string text_or_dash(std::optional<Micros> time) { return time ? to_string(*time) : "-"; }

double gap_of(Micros step, Micros bound) {
  return bound.count > 0 ? step.count / bound.count - 1 : 0.0;
}

std::string counted(std::size_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

/// Places shown as one column: of many devices, what the fullest holds.
struct Column {
  std::string name;
  std::vector<PlaceId> places;
};

std::vector<Column> columns_of(const Plan& plan) {
  constexpr std::size_t kMostColumns = 6;  // 16 + 6 x 12 = 88 characters; a GPU less fits into 80
  std::vector<Column> columns;
  const bool joined = plan.places.size() > kMostColumns;
  for (const PlaceId id : plan.places.ids()) {
    const Place& place = plan.places[id];
    const bool device = place.kind == PlaceKind::device;
    if (joined && device && !columns.empty()) {
      columns.front().places.push_back(id);
      columns.front().name = "devices";
    } else {
      columns.push_back({place.name, {id}});
    }
  }
  return columns;
}

/// What evaluation takes of a place beyond what training takes.
Bytes beside_training(const Planned& planned, PlaceId place) {
  return peak_bytes(planned, place) - peak_bytes(planned.plan, place);
}

/// A row of the table of places: what it is, and a cell per column, each of which may be empty.
std::string place_row(const std::string& name, const std::vector<std::string>& cells) {
  std::string text = print("%-16s", name.c_str());
  for (const std::string& cell : cells) text += print(" %11s", cell.c_str());
  return text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
}

std::string memory_table(const PlanQuestion& question, const Planned& planned) {
  const Plan& plan = planned.plan;
  std::vector<std::map<Purpose, Bytes>> sums;
  std::vector<PlaceId> shown;
  std::vector<std::string> names;
  for (const Column& column : columns_of(plan)) {
    names.push_back(column.name);
    const auto fullest = std::ranges::max_element(
        column.places, {}, [&](PlaceId id) { return planned.prediction.peak[id]; });
    shown.push_back(*fullest);
    sums.push_back(bytes_by_purpose(plan, *fullest));
  }
  std::string text = place_row("", names);
  for (const Purpose purpose : kPurposes) {
    std::vector<std::string> cells;
    for (auto& column : sums) {
      const Bytes bytes = column[purpose];
      cells.push_back(bytes.count > 0 ? to_string(bytes) : "");
    }
    text += place_row(to_string(purpose), cells);
  }
  const auto row = [&](const char* name, const auto& bytes_at) {
    std::vector<std::string> cells;
    for (const PlaceId id : shown) {
      const std::optional<Bytes> bytes = bytes_at(id);
      cells.push_back(bytes ? to_string(*bytes) : "");
    }
    if (!std::ranges::all_of(cells, &std::string::empty)) text += place_row(name, cells);
  };
  const IdVector<PlaceId, Bytes> home = bytes_at_home(plan);
  row("of these at home", [&](PlaceId id) -> std::optional<Bytes> {
    return home[id] > 0_B ? std::optional(home[id]) : std::nullopt;
  });
  if (planned.evaluation) {
    row("evaluation", [&](PlaceId id) -> std::optional<Bytes> {
      const Bytes more = beside_training(planned, id);
      return more > 0_B ? std::optional(more) : std::nullopt;
    });
  }
  row("free", [&](PlaceId id) -> std::optional<Bytes> {
    return limit_of(question, plan.places[id]) - peak_bytes(planned, id);
  });
  row("budget",
      [&](PlaceId id) -> std::optional<Bytes> { return limit_of(question, plan.places[id]); });
  return text;
}

/// A paper's program has no memory; its stages, each on a line, and its figures.
std::string program_table(const PlanReport& report) {
  std::string text;
  constexpr std::size_t kShown = 24;
  for (std::size_t s = 0; s < std::min(kShown, report.stages.size()); ++s) {
    const StageReport& stage = report.stages[s];
    text += print("stage %3zu  %-8s  %-8s  blocks %d to %d\n", s, to_string(stage.direction),
                  stage.device.c_str(), stage.first, stage.end - 1);
  }
  if (report.stages.size() > kShown) {
    text += print("and %zu more stages\n", report.stages.size() - kShown);
  }
  for (const auto& [name, value] : report.figures) {
    text += print("%-40s %.6g\n", name.c_str(), value);
  }
  return text;
}

/// Different runs of blocks; a stage that runs forward here and backward there counts once.
std::size_t stage_count(const Planned& planned) {
  std::set<std::pair<int, int>> stages;
  for (const StageReport& stage : planned.report.stages) stages.insert({stage.first, stage.end});
  return stages.size();
}

Json stages_json(const Planned& planned) {
  Json stages = Json::array();
  for (const StageReport& stage : planned.report.stages) {
    Json blocks = Json::array();
    for (int b = stage.first; b < stage.end; ++b) blocks.push_back(b);
    stages.push_back(
        {{"pass", to_string(stage.direction)}, {"device", stage.device}, {"blocks", blocks}});
  }
  return stages;
}

Json activations_json(const Plan& plan) {
  Json activations = Json::array();
  if (plan.timing_only || plan.mode != PlanMode::train) return activations;
  for (const ActivationPolicy policy : policies_of(plan)) activations.push_back(to_string(policy));
  return activations;
}

Json places_json(const PlanQuestion& question, const Planned& planned) {
  Json places = Json::object();
  const Plan& plan = planned.plan;
  const IdVector<PlaceId, Bytes> home = bytes_at_home(plan);
  for (const PlaceId id : plan.places.ids()) {
    const Place& place = plan.places[id];
    Json row;
    for (const auto& [purpose, bytes] : bytes_by_purpose(plan, id)) {
      row[to_string(purpose)] = bytes.count;
    }
    row["at_home"] = home[id].count;
    if (planned.evaluation) row["evaluation"] = beside_training(planned, id).count;
    row["peak"] = peak_bytes(planned, id).count;
    row["budget"] = limit_of(question, place).count;
    places[place.name] = row;
  }
  return places;
}

Json resources_json(const Planned& planned) {
  Json resources = Json::object();
  for (const ResourceId r : planned.plan.resources.ids()) {
    const ResourceUse& use = planned.prediction.use[r];
    resources[planned.plan.resources[r].name] = {{"busy_seconds", use.busy.seconds()},
                                                 {"utilisation", use.utilisation},
                                                 {"bytes", use.bytes.count}};
  }
  for (const Bubble& bubble : bubbles(planned.plan, planned.prediction)) {
    resources[planned.plan.resources[bubble.resource].name]["bubble"] = bubble.of_step;
  }
  return resources;
}

Json drives_json(const PlanQuestion& question, const Plan& plan) {
  Json drives = Json::object();
  if (const auto wear = drive_wear(question.machine, plan)) {
    drives[wear->name] = {{"read_bytes", wear->read.count},
                          {"written_bytes", wear->written.count},
                          {"life_steps", or_null(wear->life_steps)},
                          {"life_positions", or_null(wear->life_positions)}};
  }
  return drives;
}

Json candidates_json(const Planned& planned) {
  Json candidates = Json::array();
  for (const Candidate& candidate : planned.candidates) {
    Json passes = Json::array();
    for (const PassReport& pass : candidate.passes) {
      passes.push_back({{"pass", pass.name},
                        {"runs", pass.runs},
                        {"seconds", pass.seconds},
                        {"before_seconds", seconds_or_null(pass.before)},
                        {"after_seconds", seconds_or_null(pass.after)}});
    }
    candidates.push_back({{"strategy", candidate.strategy},
                          {"fits", candidate.fits},
                          {"step_seconds", candidate.step.seconds()},
                          {"lower_bound_seconds", candidate.lower_bound.seconds()},
                          {"gap", gap_of(candidate.step, candidate.lower_bound)},
                          {"binding", candidate.binding},
                          {"remark", candidate.remark},
                          {"passes", passes}});
  }
  return candidates;
}

/// How the winner stands to the others. Requires: one of them fits.
std::string advantage(const std::vector<Candidate>& candidates) {
  constexpr double kRounding = 1e-9;  // of the step
  constexpr double kAsFast = 0.0005;  // likewise: less is written 0.0%
  constexpr double kInTimes = 1.10;   // from here on as a factor
  const Candidate& winner = candidates.front();
  const auto ratio = [&](const Candidate& other) { return other.step.count / winner.step.count; };
  std::vector<const Candidate*> others;
  for (const Candidate& other : candidates) {
    if (&other != &winner && other.fits) others.push_back(&other);
  }
  const Candidate& second = *others.front();
  const auto equals = std::ranges::count_if(
      others, [&](const Candidate* other) { return ratio(*other) < 1 + kAsFast; });
  if (equals > 0) {
    const std::string more =
        equals == 1 ? "" : " and " + counted(static_cast<std::size_t>(equals - 1), "other");
    const bool ties = ratio(second) <= 1 + kRounding;  // the strategies' table decides
    return "as fast as " + second.strategy + more + (ties ? ", with less traffic as a rule" : "");
  }
  if (ratio(second) >= kInTimes) {
    return print("%.2fx as fast as %s", ratio(second), second.strategy.c_str());
  }
  return print("%.1f%% faster than %s", (ratio(second) - 1) * 100, second.strategy.c_str());
}

// Why the winner wins, as far as others were asked, and what there is to gain at most.
std::string reasons(const Planned& planned) {
  const Candidate& winner = planned.candidates.front();
  const double gain = (1 - planned.lower_bound.count / planned.prediction.step.count) * 100;
  const std::string bound = to_string(planned.lower_bound);
  if (planned.plan.timing_only) {
    return print("%s alone was asked for; under its program's own cost model, at least %s\n",
                 winner.strategy.c_str(), bound.c_str());
  }
  const auto second = std::find_if(planned.candidates.begin() + 1, planned.candidates.end(),
                                   [](const Candidate& candidate) { return candidate.fits; });
  std::string text;
  if (planned.candidates.size() == 1) {
    text = print("%s alone was asked for\n", winner.strategy.c_str());
  } else if (second == planned.candidates.end()) {
    text = print("%s is the only one that fits\n", winner.strategy.c_str());
  } else {
    text = winner.strategy + " wins: " + advantage(planned.candidates) + "; limited by " +
           winner.binding + "\n";
  }
  return text +
         print("no schedule of any strategy is faster than %s here: at most %.1f%% to gain\n",
               bound.c_str(), gain);
}

/// "2 devices", "1 of 2 devices" where a plan leaves some out.
std::string devices_text(const Machine& machine, const Plan& plan) {
  const auto simulated = std::ranges::count(machine.devices, DeviceKind::sim, &MachineDevice::kind);
  const bool all = simulated == std::ssize(machine.devices);
  const auto used = std::ranges::count(plan.places, PlaceKind::device, &Place::kind);
  const std::string count = used < std::ssize(machine.devices) ? std::to_string(used) + " of " : "";
  return count + counted(machine.devices.size(), all ? "simulated device" : "device");
}

/// Empty where all micro-batches pass at once.
std::string rounds_line(const Planned& planned) {
  const auto rounds = planned.report.figures.find("rounds");
  if (planned.plan.timing_only || rounds == planned.report.figures.end()) return "";
  return print("micro-batches: pass in %.0f rounds, each forward and backward\n", rounds->second);
}

std::string norm_first_line(const Plan& plan) {
  const std::string what = "runs twice, at first for the norm alone\n";
  if (plan.again_from == 0) return "clipping: backward " + what;
  return print("clipping: backward of blocks %d to %zu %s", plan.again_from, plan.blocks.size() - 1,
               what.c_str());
}

}  // namespace

std::string plan_table(const PlanQuestion& question, const Planned& planned) {
  const Plan& plan = planned.plan;
  std::string text =
      plan.timing_only ? program_table(planned.report) : memory_table(question, planned);
  text += print(
      "strategy %s, %s on %s, %s, %s per step\n", plan.strategy.c_str(),
      counted(stage_count(planned), "stage").c_str(), devices_text(question.machine, plan).c_str(),
      counted(plan.blocks.size(), "block").c_str(), counted(plan.tasks.size(), "task").c_str());
  const std::string policies = policies_text(plan);
  if (!policies.empty()) text += print("activations: %s\n", policies.c_str());
  if (plan.norm_first) text += norm_first_line(plan);
  text += rounds_line(planned);
  if (const auto wear = drive_wear(question.machine, plan)) text += wear_line(*wear);
  const Micros step = planned.prediction.step;
  text += print("step %s predicted (bound %s, critical: %s)", to_string(step).c_str(),
                to_string(planned.lower_bound).c_str(), planned.prediction.busiest_name.c_str());
  if (const auto positions = positions_per_second(question, step)) {
    text += print(", %.*f positions/s", *positions < 10 ? 2 : 0, *positions);
  }
  text += "\n";
  const auto ahead = std::ranges::count(plan.tasks, TaskKind::redo, &Task::kind);
  if (ahead > 0) {
    text += print("%s updated ahead of the step's norm; a step that is clipped takes %s\n",
                  counted(static_cast<std::size_t>(ahead), "block").c_str(),
                  to_string(planned.clipped_step).c_str());
  }
  return text;
}

std::string explanation(const Planned& planned) {
  std::string text = print("%-12s %10s %10s %7s  %-16s %s\n", "strategy", "step", "bound", "gap",
                           "busiest", "how");
  for (const Candidate& candidate : planned.candidates) {
    if (!candidate.fits) {
      text += print("%-12s %10s %10s %7s  %s\n", candidate.strategy.c_str(), "-", "-", "-",
                    candidate.remark.c_str());
      continue;
    }
    text += print("%-12s %10s %10s %6.1f%%  %-16s %s\n", candidate.strategy.c_str(),
                  to_string(candidate.step).c_str(), to_string(candidate.lower_bound).c_str(),
                  gap_of(candidate.step, candidate.lower_bound) * 100, candidate.binding.c_str(),
                  candidate.remark.c_str());
  }
  return text + drive_homes_line(planned.plan) + reasons(planned);
}

std::string passes_table(const Planned& planned) {
  std::string text = print("%-13s %-14s %5s %9s %12s %12s\n", "strategy", "pass", "runs", "took",
                           "step before", "after");
  for (const Candidate& candidate : planned.candidates) {
    for (const PassReport& pass : candidate.passes) {
      text += print("%-13s %-14s %5d %7.3f s %12s %12s\n", candidate.strategy.c_str(),
                    pass.name.c_str(), pass.runs, pass.seconds, text_or_dash(pass.before).c_str(),
                    text_or_dash(pass.after).c_str());
    }
  }
  return text;
}

std::string more_memory_table(const Planned& planned, const std::vector<MoreMemory>& rows) {
  constexpr double kWorthASay = 0.0005;  // of the step: less is written 0.0%
  std::string text =
      print("%-16s %10s %10s %10s  %s\n", "with more memory", "more", "then", "step", "saves");
  for (const MoreMemory& row : rows) {
    const double share = row.saved.count / planned.expected.count;
    const std::string saves = share < kWorthASay
                                  ? "0.00 s: limited by " + planned.prediction.busiest_name
                                  : print("%s, %.1f%%", to_string(row.saved).c_str(), share * 100);
    text += print("%-16s %10s %10s %10s  %s\n", row.what.c_str(), to_string(row.more).c_str(),
                  to_string(row.then).c_str(), to_string(row.step).c_str(), saves.c_str());
  }
  return text;
}

std::string variations_table(const std::vector<Variation>& variations) {
  std::string text = print("%-28s %-14s %12s %12s\n", "with", "strategy", "step", "positions/s");
  for (const Variation& variation : variations) {
    if (variation.fits) {
      const auto positions = variation.positions_per_second;
      text += print("%-28s %-14s %12s %12s\n", variation.change.c_str(), variation.strategy.c_str(),
                    to_string(variation.step).c_str(),
                    positions ? print("%.0f", *positions).c_str() : "-");
    } else {
      text +=
          print("%-28s does not fit: %s\n", variation.change.c_str(), variation.strategy.c_str());
    }
  }
  return text;
}

namespace {

Json summary_of(const PlanQuestion& question, const Planned& planned, const std::string& file) {
  const Plan& plan = planned.plan;
  const Micros step = planned.prediction.step;
  const auto idle = bubbles(plan, planned.prediction);
  return Json{{"fits", true},
              {"file", file.empty() ? Json() : Json(file)},
              {"strategy", plan.strategy},
              {"timing_only", plan.timing_only},
              {"step_seconds", step.seconds()},
              {"clipped_step_seconds",
               planned.clipped_step > Micros{} ? Json(planned.clipped_step.seconds()) : Json()},
              {"first_step_seconds", planned.prediction.first_step.seconds()},
              {"lower_bound_seconds", planned.lower_bound.seconds()},
              {"gap", gap_of(step, planned.lower_bound)},
              {"critical", planned.prediction.busiest_name},
              {"busiest_seconds", planned.prediction.busiest.seconds()},
              {"positions_per_second", or_null(positions_per_second(question, step))},
              {"bubble", mean_bubble(idle)},
              {"mapping", planned.report.mapping},
              {"stages", stages_json(planned)},
              {"activations", activations_json(plan)},
              {"figures", planned.report.figures},
              {"series", planned.report.series},
              {"places", places_json(question, planned)},
              {"resources", resources_json(planned)},
              {"drives", drives_json(question, plan)},
              {"candidates", candidates_json(planned)}};
}

}  // namespace

std::string plan_summary_json(const PlanQuestion& question, const Planned& planned,
                              const std::string& file) {
  return json_text(summary_of(question, planned, file));
}

std::string plan_json(const PlanQuestion& question, const Planned& planned,
                      const std::vector<MoreMemory>& more_memory,
                      const std::vector<Variation>& variations, const std::string& file) {
  Json object = summary_of(question, planned, file);
  object["tasks"] = tasks_json(planned.plan, planned.prediction.timeline);
  object["more_memory"] = Json::array();
  for (const MoreMemory& row : more_memory) {
    object["more_memory"].push_back({{"what", row.what},
                                     {"more_bytes", row.more.count},
                                     {"then_bytes", row.then.count},
                                     {"strategy", row.strategy},
                                     {"step_seconds", row.step.seconds()},
                                     {"saved_seconds", row.saved.seconds()},
                                     {"saved", row.saved.count / planned.expected.count}});
  }
  object["what_if"] = Json::array();
  for (const Variation& variation : variations) {
    object["what_if"].push_back(
        {{"change", variation.change},
         {"fits", variation.fits},
         {"strategy", variation.strategy},
         {"step_seconds", variation.step.seconds()},
         {"positions_per_second", or_null(variation.positions_per_second)}});
  }
  return json_text(object, 1) + "\n";
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
        {{"change", remedy.change},
         {"step_seconds", remedy.step.seconds()},
         {"assumed", remedy.assumed.empty() ? Json() : Json(remedy.assumed)}});
  }
  return json_text(object, 2) + "\n";
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
    if (!remedy.assumed.empty()) text += print("    if it is %s\n", remedy.assumed.c_str());
  }
  return text;
}

}  // namespace ferry
