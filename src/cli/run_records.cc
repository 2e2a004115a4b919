#include "cli/run_records.h"

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/input_file.h"
#include "base/json.h"
#include "data/files.h"

namespace ferry {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::map<std::string, Bytes> bytes_per_place(const json& object) {
  std::map<std::string, Bytes> places;
  for (const auto& [place, bytes] : object.items()) places[place] = {bytes.get<std::int64_t>()};
  return places;
}

/// Takes a line of the log: a step, an evaluation, or one of a kind that is not known here.
void take_line(const json& line, RunHistory& history) {
  if (line.contains("eval_loss")) {
    history.evaluations.push_back({line.at("step").get<int>(), line.at("eval_loss").get<double>()});
  }
  if (!line.contains("loss")) return;
  RunStep step;
  step.step = line.at("step").get<int>();
  step.loss = line.at("loss").get<double>();
  step.lr = line.at("lr").get<double>();
  step.grad_norm = line.at("grad_norm").get<double>();
  step.tokens = line.at("tokens").get<std::int64_t>();
  step.learned = line.at("learned_tokens").get<std::int64_t>();
  step.seconds = line.at("step_seconds").get<double>();
  step.tokens_per_second = line.at("tokens_per_second").get<double>();
  step.stall = line.at("stall").get<double>();
  step.peak_bytes = bytes_per_place(line.at("peak_bytes"));
  history.steps.push_back(std::move(step));
}

/// Reads the log. The last line may be half written: the run still goes on, or was killed.
void read_log(const fs::path& file, RunHistory& history) {
  if (!fs::exists(file)) {
    throw UserError(file.string() + ": no such file; expected the folder of a run that has begun");
  }
  require_regular(file);
  std::ifstream log(file);
  int number = 0;
  for (std::string line; std::getline(log, line) && !log.eof();) {
    const std::string where = file.string() + ":" + std::to_string(++number);
    try {
      take_line(parse_json(line, where), history);
    } catch (const json::exception& error) {
      throw UserError(where + ": not a line of a run's log: " + error.what());
    }
  }
}

std::string text_of(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

/// Measured over predicted; nothing where that is no number.
std::optional<double> ratio_of(double measured, double predicted) {
  const double ratio = measured / predicted;
  return std::isfinite(ratio) ? std::optional(ratio) : std::nullopt;
}

void compare_peaks(const json& summary, RunHistory& history) {
  const auto predicted = bytes_per_place(summary.at("predicted_peak_bytes"));
  const auto measured = bytes_per_place(summary.at("measured_peak_bytes"));
  for (const auto& [place, bytes] : measured) {
    RunComparison row{"peak " + place, "", to_string(bytes), std::nullopt};
    if (const auto found = predicted.find(place); found != predicted.end()) {
      row.predicted = to_string(found->second);
      row.ratio =
          ratio_of(static_cast<double>(bytes.count), static_cast<double>(found->second.count));
    }
    history.comparison.push_back(row);
  }
}

void compare_drives(const json& summary, RunHistory& history) {
  if (!summary.contains("drives")) return;
  for (const auto& [place, drive] : summary.at("drives").items()) {
    if (!drive.contains("measured")) continue;
    const auto steps = drive.at("steps").get<std::int64_t>();
    if (steps <= 0) continue;
    for (const char* way : {"read", "written"}) {
      const auto predicted = drive.at("predicted_per_step").at(way).get<std::int64_t>();
      const auto moved = drive.at("measured").at(way).get<std::int64_t>();
      const std::int64_t per_step = moved / steps;
      RunComparison row{place + " " + way + " per step", to_string(Bytes{predicted}),
                        to_string(Bytes{per_step}), std::nullopt};
      row.ratio = ratio_of(static_cast<double>(per_step), static_cast<double>(predicted));
      history.comparison.push_back(row);
    }
    history.facts.emplace_back(place, drive.at("io").get<std::string>());
  }
}

void read_summary(const fs::path& file, RunHistory& history) {
  const json summary = parse_json(read_file(file, 16_MiB), file.string());
  try {
    // What the summary of a run that goes on says is of no step.
    if (summary.contains("state") && summary.at("state") == "running") return;
    const Micros predicted = from_seconds(summary.at("predicted_step_seconds").get<double>());
    const Micros measured = from_seconds(summary.at("measured_step_seconds").get<double>());
    RunComparison step{"step", to_string(predicted), to_string(measured), std::nullopt};
    step.ratio = ratio_of(measured.count, predicted.count);
    history.comparison.push_back(step);
    compare_peaks(summary, history);
    compare_drives(summary, history);
    history.facts.emplace_back("checkpoint", summary.at("checkpoint").get<std::string>());
  } catch (const json::exception& error) {
    throw UserError(file.string() + ": not a run's summary: " + error.what());
  }
}

void read_environment(const fs::path& file, RunHistory& history) {
  const json environment = parse_json(read_file(file, 16_MiB), file.string());
  for (const auto& [name, value] : environment.items()) {
    history.facts.emplace_back(name, text_of(value));
  }
}

}  // namespace

RunHistory read_run(const fs::path& out) {
  RunHistory history;
  history.name = out.string();
  read_log(out / "log.jsonl", history);
  if (fs::exists(out / "summary.json")) read_summary(out / "summary.json", history);
  if (fs::exists(out / "environment.json")) read_environment(out / "environment.json", history);
  return history;
}

}  // namespace ferry
