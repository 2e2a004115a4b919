// What a run leaves behind for people and programs: what it was asked for, log.jsonl, summary.json.
// Formats: docs/formats/run.md.
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "exec/timeline.h"
#include "train/trainer.h"

namespace ferry {

/// The fields of a step's line in log.jsonl.
nlohmann::json step_fields(const StepReport& report);

/// Appends one JSON object per line. Every line is flushed, so that a killed run keeps them.
class StepLog {
 public:
  /// Opens `file`; lines of steps after `keep_until` (of an earlier run that is resumed) are
  /// dropped.
  StepLog(const std::filesystem::path& file, int keep_until);

  void step(const StepReport& report);
  void evaluated(int step, double loss);

 private:
  void line(const std::string& text);

  std::filesystem::path path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

/// Writes what the run was asked for: job.yaml, machine.yaml and plan.
void write_inputs(const std::filesystem::path& folder, const TrainSetup& setup);

/// What summary.json holds.
std::string summary_json(const TrainSummary& summary, Micros predicted_step);

void write_summary(const std::filesystem::path& file, const TrainSummary& summary,
                   Micros predicted_step);

}  // namespace ferry
