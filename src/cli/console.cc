#include "cli/console.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

#include "cli/print.h"
#include "cli/standard_streams.h"
#include "cli/tables.h"

namespace ferry {

void Console::step(const StepReport& report) {
  if (report.step % log_every_ != 0 && report.step != report.steps) return;
  print_line(step_line(report));
}

void Console::evaluated(int step, double loss) {
  print_line(print("step %5d  eval loss %7.4f", step, loss));
}

void Console::saved(int step, const std::filesystem::path& folder) {
  print_line(print("step %5d  saved ", step) + folder.string());
}

/// A signal has been answered already.
bool Console::wants_to_stop() {
  if (!stop_.is_wanted()) return false;
  if (!std::exchange(stop_is_told_, true) && output_has_no_reader()) {
    phases_.phase("standard output was closed: finishing the steps that have begun");
  }
  return true;
}

void Console::print_line(const std::string& line) {
  if (!takes_a_line(STDOUT_FILENO)) {
    ++left_out_;
    return;
  }
  phases_.clear();
  if (const int lines = std::exchange(left_out_, 0); lines > 0) {
    std::printf("%d %s left out, which nobody read in time; log.jsonl has all steps\n", lines,
                lines == 1 ? "line is" : "lines are");
  }
  std::printf("%s\n", cut_to(line, terminal_columns(STDOUT_FILENO)).c_str());
  std::fflush(stdout);
}

}  // namespace ferry
