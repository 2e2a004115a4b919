#include "train/records.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/json.h"
#include "data/files.h"
#include "train/run_folder.h"

namespace ferry {
namespace {

nlohmann::json bytes_per_place(const std::map<std::string, Bytes>& places) {
  auto object = nlohmann::json::object();
  for (const auto& [place, bytes] : places) object[place] = bytes.count;
  return object;
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
    entry["steps"] = summary.steps_here;
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
  earlier_ = read_earlier_lines(file, keep_until);
  write_file(file, std::exchange(earlier_.text, {}));
  descriptor_ = open(file.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (descriptor_ < 0) throw system_error("cannot open " + file.string(), errno);
}

StepLog::~StepLog() { close(descriptor_); }

void StepLog::line(const std::string& text) {
  waiting_ += text + "\n";
  write_waiting();
}

void StepLog::write_waiting() {
  while (!waiting_.empty()) {
    const ssize_t put = write(descriptor_, waiting_.data(), waiting_.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) {
      trouble_ = system_error("cannot write " + path_.string(), put < 0 ? errno : EIO).what();
      trouble_ += "; lines wait in memory until the drive takes them";
      return;
    }
    waiting_.erase(0, static_cast<std::size_t>(put));
  }
  trouble_.clear();
  is_told_ = false;
}

void StepLog::sync() {
  write_waiting();
  if (fdatasync(descriptor_) == 0 || !trouble_.empty()) return;
  trouble_ = system_error("sync failed: " + path_.string(), errno).what();
  trouble_ += "; its last lines may not be on the drive";
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
  write_file(folder / "job.yaml", kRunsJob + to_yaml(setup.job));
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
  if (summary.clipped_steps) object["clipped_steps"] = *summary.clipped_steps;
  if (summary.eval_loss) object["eval_loss"] = *summary.eval_loss;
  return json_text(object, 2) + "\n";
}

void write_summary(const std::filesystem::path& file, const TrainSummary& summary,
                   Micros predicted_step) {
  write_file(file, summary_json(summary, predicted_step));
}

}  // namespace ferry
