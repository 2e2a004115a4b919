#include "cli/console.h"

#include <unistd.h>

#include <cstdio>

#include "cli/print.h"
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

bool Console::wants_to_stop() {
  const char* const reason = stop_.reason();
  if (reason != nullptr && !stop_is_told_) {
    phases_.phase(std::string(reason) + ": finishing the steps that have begun");
    stop_is_told_ = true;
  }
  return reason != nullptr;
}

void Console::print_line(const std::string& line) {
  phases_.clear();
  std::printf("%s\n", cut_to(line, terminal_columns(STDOUT_FILENO)).c_str());
  std::fflush(stdout);
}

}  // namespace ferry
