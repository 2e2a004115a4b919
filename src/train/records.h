// What a run leaves behind for people and programs: what it was asked for, log.jsonl, summary.json.
// Formats: docs/formats/run.md.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "exec/timeline.h"
#include "train/earlier_lines.h"
#include "train/trainer.h"

namespace ferry {

/// The fields of a step's line in log.jsonl.
nlohmann::json step_fields(const StepReport& report);

/// Appends one JSON object per line, at once, so that a killed run keeps them. What the drive does
/// not take waits in memory and goes before the next line, or when it is synced.
class StepLog {
 public:
  /// Opens `file`; lines of steps after `keep_until` (of an earlier run that is resumed) are
  /// dropped. Throws ResourceError.
  StepLog(const std::filesystem::path& file, int keep_until);
  ~StepLog();
  StepLog(const StepLog&) = delete;
  StepLog& operator=(const StepLog&) = delete;

  /// Of the lines that were kept, without their text.
  const EarlierLines& earlier() const { return earlier_; }

  void step(const StepReport& report);
  void evaluated(int step, double loss);
  /// Writes what waits and makes the log durable, as far as the drive can.
  void sync();

  /// Whether all lines are written.
  bool is_whole() const { return waiting_.empty(); }

  /// What the drive refused and what comes of it, if that was not told yet: of lines once, until it
  /// takes them; of syncs each time.
  std::optional<std::string> new_trouble();

 private:
  void line(const std::string& text);
  void write_waiting();

  std::filesystem::path path_;
  EarlierLines earlier_;
  int descriptor_ = -1;
  std::string waiting_;  // not written yet
  std::string trouble_;  // of the last write or sync; empty: none
  bool is_told_ = false;
};

/// Writes what the run was asked for: job.yaml, machine.yaml and plan.
void write_inputs(const std::filesystem::path& folder, const TrainSetup& setup);

/// What summary.json holds.
std::string summary_json(const TrainSummary& summary, Micros predicted_step);

void write_summary(const std::filesystem::path& file, const TrainSummary& summary,
                   Micros predicted_step);

}  // namespace ferry
