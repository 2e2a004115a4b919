#include "train/records.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/error.h"
#include "base/input_file.h"
#include "base/json.h"
#include "data/files.h"

namespace ferry {
namespace {

nlohmann::json bytes_per_place(const std::map<std::string, Bytes>& places) {
  auto object = nlohmann::json::object();
  for (const auto& [place, bytes] : places) object[place] = bytes.count;
  return object;
}

/// The step that a line of a log is of; nothing where a crash or somebody else wrote it.
std::optional<std::int64_t> step_of(const nlohmann::json& object) {
  if (!object.is_object()) return std::nullopt;
  const auto step = object.find("step");
  if (step == object.end() || !step->is_number_integer()) return std::nullopt;
  return step->get<std::int64_t>();
}

std::optional<double> number_of(const nlohmann::json& object, const char* key) {
  const auto value = object.find(key);
  if (value == object.end() || !value->is_number()) return std::nullopt;
  return value->get<double>();
}

void note(const nlohmann::json& object, int step, EarlierLines& lines) {
  if (number_of(object, "eval_loss")) lines.evaluated = step;
  const auto loss = number_of(object, "loss"), norm = number_of(object, "grad_norm");
  if (!loss || !norm || number_of(object, "learned_tokens").value_or(0) == 0) return;
  lines.learned.push_back({step, *loss, *norm});
}

/// The lines of an earlier run that a resumed one continues; `noted` is what they say.
std::string kept_lines(const std::filesystem::path& file, int keep_until, EarlierLines& noted) {
  if (!std::filesystem::exists(file)) return "";
  require_regular(file);
  std::ifstream earlier(file);
  std::string kept, line;
  while (std::getline(earlier, line)) {
    const auto object = parse_json_or_null(line);
    const auto step = step_of(object);
    if (!step || *step < 0 || *step > keep_until) continue;
    kept += line + "\n";
    note(object, static_cast<int>(*step), noted);
  }
  return kept;
}

nlohmann::json moved_per_place(const DriveBytesByPlace& places) {
  auto object = nlohmann::json::object();
  for (const auto& [place, bytes] : places) {
    object[place] = {{"read", bytes.read.count}, {"written", bytes.written.count}};
  }
  return object;
}

/// What a run's drives did, for runs that have some.
nlohmann::json drives_json(const TrainSummary& summary) {
  auto object = nlohmann::json::object();
  for (const auto& [place, predicted] : summary.predicted_drive_bytes) {
    auto& entry = object[place];
    entry["predicted_per_step"] = {{"read", predicted.read.count},
                                   {"written", predicted.written.count}};
    const auto moved = summary.drive_bytes.find(place);
    if (moved == summary.drive_bytes.end()) continue;
    entry["measured"] = {{"read", moved->second.read.count},
                         {"written", moved->second.written.count}};
    entry["steps"] = summary.drive_steps;
    entry["io"] = summary.drive_io.at(place);
  }
  return object;
}

std::string to_string(RunState state) {
  switch (state) {
    case RunState::running:
      return "running";
    case RunState::done:
      return "done";
    case RunState::interrupted:
      return "interrupted";
    case RunState::failed:
      return "failed";
  }
  FERRY_UNREACHABLE("a state of a run");
}

}  // namespace

StepLog::StepLog(const std::filesystem::path& file, int keep_until) : path_(file) {
  write_file(file, kept_lines(file, keep_until, earlier_));
  descriptor_ = open(file.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (descriptor_ < 0) throw system_error("cannot open " + file.string(), errno);
}

StepLog::~StepLog() { close(descriptor_); }

void StepLog::line(const std::string& text) {
  waiting_ += text + "\n";
  while (!waiting_.empty()) {
    const ssize_t put = write(descriptor_, waiting_.data(), waiting_.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) {
      trouble_ = system_error("cannot write " + path_.string(), put < 0 ? errno : EIO).what();
      return;
    }
    waiting_.erase(0, static_cast<std::size_t>(put));
  }
  trouble_.clear();
  is_told_ = false;
}

std::optional<std::string> StepLog::new_trouble() {
  if (trouble_.empty() || is_told_) return std::nullopt;
  is_told_ = true;
  return trouble_;
}

nlohmann::json step_fields(const StepReport& report) {
  nlohmann::json fields{{"step", report.step},
                        {"loss", report.loss},
                        {"lr", report.lr},
                        {"grad_norm", report.grad_norm},
                        {"tokens", report.tokens},
                        {"learned_tokens", report.learned},
                        {"step_seconds", report.step_seconds},
                        {"tokens_per_second", report.tokens_per_second()},
                        {"stall", report.stall},
                        {"stall_by", report.stall_by},
                        {"peak_bytes", bytes_per_place(report.peak_bytes)}};
  if (!report.drive_bytes.empty()) fields["drive_bytes"] = moved_per_place(report.drive_bytes);
  return fields;
}

void StepLog::step(const StepReport& report) { line(step_fields(report).dump()); }

void StepLog::evaluated(int step, double loss) {
  line(nlohmann::json{{"step", step}, {"eval_loss", loss}}.dump());
}

void write_inputs(const std::filesystem::path& folder, const TrainSetup& setup) {
  write_file(folder / "job.yaml", to_yaml(setup.job));
  write_file(folder / "machine.yaml", to_yaml(setup.machine));
  write_plan(setup.plan, folder / "plan");
  if (!setup.environment.empty()) write_file(folder / "environment.json", setup.environment);
  if (!setup.profile.empty()) write_file(folder / "profile.yaml", setup.profile);
}

std::string summary_json(const TrainSummary& summary, Micros predicted_step) {
  nlohmann::json object{{"state", to_string(summary.state)},
                        {"steps", summary.steps_done},
                        {"interrupted", summary.state == RunState::interrupted},
                        {"final_loss", summary.final_loss},
                        {"predicted_step_seconds", predicted_step.seconds()},
                        {"measured_step_seconds", summary.measured_step.seconds()},
                        {"tokens", summary.tokens},
                        {"tokens_per_second", summary.tokens_per_second},
                        {"stepping_seconds", summary.stepping_seconds},
                        {"seconds", summary.seconds},
                        {"predicted_peak_bytes", bytes_per_place(summary.predicted_peak)},
                        {"measured_peak_bytes", bytes_per_place(summary.measured_peak)},
                        {"beside_plan_bytes", summary.beside_plan.count},
                        {"tokenising_peak_bytes", summary.tokenising_peak.count},
                        {"checkpoint", summary.checkpoint.string()}};
  if (!summary.reason.empty()) object["reason"] = summary.reason;
  if (!summary.predicted_drive_bytes.empty()) object["drives"] = drives_json(summary);
  if (!summary.drive_life_steps.empty()) object["drive_life_steps"] = summary.drive_life_steps;
  if (summary.eval_loss) object["eval_loss"] = *summary.eval_loss;
  return object.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

void write_summary(const std::filesystem::path& file, const TrainSummary& summary,
                   Micros predicted_step) {
  write_file(file, summary_json(summary, predicted_step));
}

}  // namespace ferry
