#include "cli/plan_cache.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "base/error.h"
#include "base/input_file.h"
#include "base/json.h"
#include "cli/cache_folder.h"
#include "data/files.h"
#include "plan/verify.h"
#include "planner/costs/queues.h"

namespace ferry {
namespace {

using Json = nlohmann::ordered_json;

// Counts up when the planner answers equal questions differently, be it by another bound.
constexpr int kPlannerVersion = 48;

// Everything that an answer depends on, as text.
std::string question_text(const PlanQuestion& question) {
  Job job;  // writes the options
  job.plan = question.options;
  job.strategy = question.strategy;
  Machine machine = question.machine;  // what is free beyond the limit moves; no plan depends on it
  machine.host.memory = host_limit(question);
  std::ostringstream text;
  text << "planner " << kPlannerVersion << "\n"
       << to_yaml(job) << to_yaml(machine) << to_yaml(question.profile) << question.micro_batches
       << ' ' << question.micro_batch_size << ' ' << question.sequence << ' '
       << to_string(question.precision) << ' ' << to_string(question.gradients) << ' '
       << question.clips << ' ' << static_cast<int>(question.mode) << ' ' << question.evaluates
       << ' ' << (question.shared ? question.shared->bytes.count : -1) << ' '
       << question.host_budget.count << ' ' << question.model.tied << "\n";
  for (int d = 0; d < static_cast<int>(question.machine.devices.size()); ++d) {
    text << device_budget(question, d).bytes.count << "\n";
  }
  for (const BlockSpec& block : question.model.blocks) {
    text << similarity_key(question.model, block) << ' ' << block.numel() << "\n";
  }
  if (question.harmony) text << question.harmony->text;
  return text.str();
}

std::filesystem::path file_of(const std::string& question) { return cache_file("plans", question); }

Json report_json(const PlanReport& report) {
  Json stages = Json::array();
  for (const StageReport& stage : report.stages) {
    stages.push_back({static_cast<int>(stage.direction), stage.device, stage.first, stage.end});
  }
  return {{"stages", stages},
          {"mapping", report.mapping},
          {"figures", report.figures},
          {"series", report.series}};
}

/// Of a plan with so many blocks.
PlanReport report_from(const Json& json, std::size_t blocks) {
  PlanReport report;
  for (const Json& stage : json.at("stages")) {
    const int direction = stage.at(0).get<int>(), first = stage.at(2).get<int>(),
              end = stage.at(3).get<int>();
    if (direction < 0 || direction > static_cast<int>(Direction::fused) || first < 0 ||
        end < first || static_cast<std::size_t>(end) > blocks) {
      throw UserError("not a stage of this plan");
    }
    report.stages.push_back(
        {static_cast<Direction>(direction), stage.at(1).get<std::string>(), first, end});
  }
  json.at("mapping").get_to(report.mapping);
  json.at("figures").get_to(report.figures);
  json.at("series").get_to(report.series);
  return report;
}

Json candidates_json(const Planned& planned) {
  Json rows = Json::array();
  for (const Candidate& one : planned.candidates) {
    rows.push_back(
        {one.strategy, one.fits, one.step.count, one.lower_bound.count, one.binding, one.remark});
  }
  return rows;
}

std::vector<Candidate> candidates_from(const Json& rows) {
  std::vector<Candidate> candidates;
  for (const Json& row : rows) {
    candidates.push_back({row.at(0).get<std::string>(), row.at(1).get<bool>(),
                          Micros{row.at(2).get<double>()}, Micros{row.at(3).get<double>()},
                          row.at(4).get<std::string>(), row.at(5).get<std::string>()});
  }
  return candidates;
}

}  // namespace

std::optional<Planned> find_cached_plan(const PlanQuestion& question) {
  const std::string asked = question_text(question);
  try {
    const std::string file = file_of(asked).string();
    const Json kept = parse_json(read_file(file, 1_GiB), file);
    if (kept.at("question").get<std::string>() != asked) return std::nullopt;
    Planned planned;
    planned.plan = parse_plan(kept.at("plan").get<std::string>(), "cached plan");
    if (verify(planned.plan)) return std::nullopt;
    if (question.evaluates) {
      planned.evaluation = parse_plan(kept.at("evaluation").get<std::string>(), "cached plan");
      if (verify(*planned.evaluation)) return std::nullopt;
    }
    planned.report = report_from(kept.at("report"), planned.plan.blocks.size());
    planned.prediction = simulate(planned.plan);
    planned.lower_bound = {kept.at("lower_bound").get<double>()};
    planned.candidates = candidates_from(kept.at("candidates"));
    planned.expected = {kept.at("expected").get<double>()};
    planned.clipped_step = {kept.at("clipped_step").get<double>()};
    return planned;
  } catch (const std::exception&) {  // not there or damaged: it is made again
    return std::nullopt;
  }
}

void cache_plan(const PlanQuestion& question, const Planned& planned) {
  const std::string asked = question_text(question);
  Json kept{{"question", asked},
            {"lower_bound", planned.lower_bound.count},
            {"candidates", candidates_json(planned)},
            {"expected", planned.expected.count},
            {"clipped_step", planned.clipped_step.count},
            {"report", report_json(planned.report)},
            {"plan", to_text(planned.plan)}};
  if (planned.evaluation) kept["evaluation"] = to_text(*planned.evaluation);
  try {
    const std::filesystem::path file = file_of(asked);
    std::filesystem::create_directories(file.parent_path());
    write_file(file, kept.dump());
  } catch (const std::exception&) {
    // A read-only directory: the plan is made again next time.
  }
}

PlanAnswer plan_or_cached(const PlanQuestion& question, PhaseListener& listener) {
  if (auto kept = find_cached_plan(question)) return std::move(*kept);
  PlanAnswer answer = search_plan(question, listener);
  if (const auto* planned = std::get_if<Planned>(&answer)) cache_plan(question, *planned);
  return answer;
}

}  // namespace ferry
