#include "cli/tables.h"

#include <algorithm>

#include "cli/print.h"

namespace ferry {
namespace {

/// "1,234,567"
std::string grouped(std::int64_t number) {
  std::string text = std::to_string(number);
  for (std::int64_t at = std::ssize(text) - 3; at > 0; at -= 3) {
    text.insert(static_cast<std::size_t>(at), ",");
  }
  return text;
}

double percent(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? 100 * static_cast<double>(part) / static_cast<double>(whole) : 0;
}

/// The threads of each simulated device's kernels; nothing where GPUs compute.
std::string threads_text(const Machine& machine) {
  const MachineDevice& device = machine.devices.front();
  if (device.kind != DeviceKind::sim) return "";
  return print(", %d thread%s per kernel", device.threads, device.threads == 1 ? "" : "s");
}

}  // namespace

std::string start_table(const TrainSetup& setup, const EpochFigures& epoch, Bytes checkpoint) {
  const Job& job = setup.job;
  const std::int64_t rows = std::int64_t{1} * job.train.micro_batches * job.train.micro_batch_size;
  const std::int64_t positions = epoch.rows * job.data.sequence;
  std::string text = "model       " + job.model + ": " + grouped(parameters(setup.model)) +
                     " parameters, " + to_string(setup.plan.precision) +
                     threads_text(setup.machine) + "\n";
  text += print(
      "data        %s %s of %d positions: %s tokens, %.0f%% of them learned; %.0f%% "
      "padding; %s rows cut\n",
      grouped(epoch.rows).c_str(), job.data.packing ? "packed rows" : "rows", job.data.sequence,
      grouped(epoch.tokens).c_str(), percent(epoch.learned, epoch.tokens),
      percent(positions - epoch.tokens, positions), grouped(epoch.cut).c_str());
  text += print("steps       %s of %s rows, about %s tokens each: %.3g epochs, %s as predicted\n",
                grouped(job.train.steps).c_str(), grouped(rows).c_str(),
                grouped(epoch.tokens * rows / epoch.rows).c_str(),
                static_cast<double>(job.train.steps) * static_cast<double>(rows) /
                    static_cast<double>(epoch.rows),
                duration(job.train.steps * setup.predicted_step.seconds()).c_str());
  text += print("checkpoint  %s each, %d kept: ", to_string(checkpoint).c_str(), job.train.keep) +
          job.out + "/checkpoints\n";
  return text;
}

std::string step_line(const StepReport& report) {
  std::string text = print("step %5d/%d  loss %7.4f  lr %.2e  norm %7.3f  %6.0f tok/s  left %s",
                           report.step, report.steps, report.loss, report.lr, report.grad_norm,
                           report.tokens_per_second(), duration(report.seconds_left).c_str());
  for (const auto& [place, bytes] : report.peak_bytes) {
    text += print("  %s %s", place.c_str(), to_string(bytes).c_str());
  }
  return text + print("  stall %2.0f%%", report.stall * 100);
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
  for (const auto& [place, predicted] : summary.predicted_drive_bytes) {
    const auto found = summary.drive_bytes.find(place);
    const auto moved = [&](const char* what, Bytes DriveBytes::*bytes) {
      if (found == summary.drive_bytes.end() || summary.steps_here == 0) return;
      const Bytes per_step{(found->second.*bytes).count / summary.steps_here};
      if (predicted.*bytes == 0_B) return;
      row(place + " " + what, to_string(predicted.*bytes), to_string(per_step),
          static_cast<double>(per_step.count) / static_cast<double>((predicted.*bytes).count));
    };
    moved("read/step", &DriveBytes::read);
    moved("written/step", &DriveBytes::written);
  }
  const auto part = [&](const char* name, Bytes measured) {
    text += print("%-18s %14s %14s\n", name, "", to_string(measured).c_str());
  };
  part("  beside the plan", summary.beside_plan);
  if (summary.tokenising_peak > 0_B) part("  tokenising", summary.tokenising_peak);
  for (const auto& [drive, steps] : summary.drive_life_steps) {
    text += print("%s lasts %.0f such steps by its rated writes\n", drive.c_str(), steps);
  }
  if (summary.clipped_steps.value_or(0) > 0) {
    text += print("%d of this run's %d steps were clipped\n", *summary.clipped_steps,
                  summary.steps_here);
  }
  return text + print("%s tokens in %s of %s, median %.0f tok/s\n", grouped(summary.tokens).c_str(),
                      duration(summary.stepping_seconds).c_str(), duration(summary.seconds).c_str(),
                      summary.tokens_per_second);
}

}  // namespace ferry
