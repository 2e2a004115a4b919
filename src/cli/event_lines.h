// A training run as lines of JSON on standard output, one per event (event.h), for programs.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "cli/stop_signals.h"
#include "train/trainer.h"

namespace ferry {

class EventLines final : public TrainObserver {
 public:
  explicit EventLines(StopSignals& stop) : stop_(stop) {}

  void phase(const std::string& what) override;
  void progress(const Progress& progress) override;
  void step(const StepReport& report) override;
  void warning(const std::string& text) override;
  void evaluated(int step, double loss) override;
  void saved(int step, const std::filesystem::path& folder) override;
  void steps_begin() override { stop_.steps_begin(/*says_so=*/false); }
  bool wants_to_stop() override { return stop_.is_wanted(); }

 private:
  StopSignals& stop_;
  std::chrono::steady_clock::time_point told_;  // when progress was told last
};

}  // namespace ferry
