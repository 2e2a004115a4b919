#include "cli/event_lines.h"

#include <nlohmann/json.hpp>

#include "cli/event.h"
#include "train/records.h"

namespace ferry {
namespace {

constexpr auto kBetweenProgress = std::chrono::milliseconds(100);

}  // namespace

void EventLines::phase(const std::string& what) { write_event("phase", {{"what", what}}); }

// The first and the last of a phase, and ten per second between.
void EventLines::progress(const Progress& progress) {
  const auto now = std::chrono::steady_clock::now();
  const bool between = 0 < progress.done && progress.done < progress.total;
  if (between && now - told_ < kBetweenProgress) return;
  told_ = now;
  write_event("progress", {{"what", progress.what},
                           {"done", progress.done},
                           {"total", progress.total},
                           {"unit", progress.unit.empty() ? "bytes" : progress.unit}});
}

void EventLines::step(const StepReport& report) {
  nlohmann::json fields = step_fields(report);
  fields["steps"] = report.steps;
  fields["seconds_left"] = report.seconds_left;
  write_event("step", std::move(fields));
}

void EventLines::warning(const std::string& text) { write_event("warning", {{"what", text}}); }

void EventLines::evaluated(int step, double loss) {
  write_event("evaluated", {{"step", step}, {"eval_loss", loss}});
}

void EventLines::saved(int step, const std::filesystem::path& folder) {
  write_event("saved", {{"step", step}, {"folder", folder.string()}});
}

}  // namespace ferry
