#include "cli/tables.h"

#include <algorithm>

#include "cli/print.h"

namespace ferry {
std::string step_line(const StepReport& report) {
  std::string text =
      print("step %6d/%d  loss %8.4f  lr %.2e  norm %8.3f  %7.0f tok/s", report.step, report.steps,
            report.loss, report.lr, report.grad_norm,
            report.step_seconds > 0 ? static_cast<double>(report.tokens) / report.step_seconds : 0);
  for (const auto& [place, bytes] : report.peak_bytes) {
    text += print("  %s %s", place.c_str(), to_string(bytes).c_str());
  }
  text +=
      print("  stall %2.0f%%  left %s", report.stall * 100, duration(report.seconds_left).c_str());
  return text;
}

std::string summary_table(const TrainSummary& summary, Micros predicted_step) {
  std::string text = print("%-18s %14s %14s %9s\n", "", "predicted", "measured", "ratio");
  const auto row = [&](const std::string& name, const std::string& predicted,
                       const std::string& measured, double ratio) {
    text +=
        print("%-18s %14s %14s %9.3f\n", name.c_str(), predicted.c_str(), measured.c_str(), ratio);
  };
  if (summary.measured_step.count > 0) {
    row("step", to_string(predicted_step), to_string(summary.measured_step),
        summary.measured_step.count / predicted_step.count);
  }
  for (const auto& [place, predicted] : summary.predicted_peak) {
    const Bytes measured = summary.measured_peak.at(place);
    row("peak " + place, to_string(predicted), to_string(measured),
        static_cast<double>(measured.count) / static_cast<double>(predicted.count));
  }
  const auto part = [&](const char* name, Bytes measured) {
    text += print("%-18s %14s %14s\n", name, "", to_string(measured).c_str());
  };
  part("  beside the plan", summary.beside_plan);
  if (summary.tokenising_peak > 0_B) part("  tokenising", summary.tokenising_peak);
  return text;
}

}  // namespace ferry
