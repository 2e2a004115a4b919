// A training run as it goes: steps to standard output, phases through PhaseLines. Steps wait for
// nobody: a line that is not taken at once is left out.
#pragma once

#include "cli/phase_lines.h"
#include "cli/stop_signals.h"
#include "train/trainer.h"

namespace ferry {

class Console final : public TrainObserver {
 public:
  /// A line for every `log_every`th step and the last one.
  Console(PhaseLines& phases, int log_every, StopSignals& stop)
      : phases_(phases), log_every_(log_every), stop_(stop) {}

  void phase(const std::string& what) override { phases_.phase(what); }
  void progress(const Progress& progress) override { phases_.progress(progress); }
  void steps_begin() override { stop_.steps_begin(/*says_so=*/true); }
  void in_step(const Progress& progress) override { phases_.passing(progress); }
  void step(const StepReport& report) override;
  void warning(const std::string& text) override { phases_.phase("warning: " + text); }
  void evaluated(int step, double loss) override;
  void saved(int step, const std::filesystem::path& folder) override;
  bool wants_to_stop() override;

 private:
  void print_line(const std::string& line);

  PhaseLines& phases_;
  const int log_every_;
  StopSignals& stop_;
  int left_out_ = 0;  // lines since the last one that was printed
  bool stop_is_told_ = false;
};

}  // namespace ferry
