// What a run leaves behind for people and programs: log.jsonl, summary.json, timeline.json.
// Formats: docs/formats/run.md.
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>

#include "exec/timeline.h"
#include "train/trainer.h"

namespace ferry {

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

void write_summary(const std::filesystem::path& file, const TrainSummary& summary,
                   Micros predicted_step);

}  // namespace ferry
