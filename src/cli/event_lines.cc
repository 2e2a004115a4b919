#include "cli/event_lines.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "train/records.h"

namespace ferry {
namespace {

constexpr auto kBetweenProgress = std::chrono::milliseconds(100);

// Whether lines came out is asked at the end (standard_streams.h).
void write_line(const std::string& event, nlohmann::json fields) {
  fields["event"] = event;
  // A path may hold bytes that are not UTF-8.
  const std::string line =
      fields.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  std::fputs(line.c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace

void write_event(const std::string& event, const std::string& object) {
  write_line(event, nlohmann::json::parse(object));
}

void EventLines::phase(const std::string& what) { write_line("phase", {{"what", what}}); }

// The first and the last of a phase, and ten per second between.
void EventLines::progress(const Progress& progress) {
  const auto now = std::chrono::steady_clock::now();
  const bool between = 0 < progress.done && progress.done < progress.total;
  if (between && now - told_ < kBetweenProgress) return;
  told_ = now;
  write_line("progress", {{"what", progress.what},
                          {"done", progress.done},
                          {"total", progress.total},
                          {"unit", progress.unit.empty() ? "bytes" : progress.unit}});
}

void EventLines::step(const StepReport& report) {
  nlohmann::json fields = step_fields(report);
  fields["steps"] = report.steps;
  fields["seconds_left"] = report.seconds_left;
  write_line("step", std::move(fields));
}

void EventLines::warning(const std::string& text) { write_line("warning", {{"what", text}}); }

void EventLines::evaluated(int step, double loss) {
  write_line("evaluated", {{"step", step}, {"eval_loss", loss}});
}

void EventLines::saved(int step, const std::filesystem::path& folder) {
  write_line("saved", {{"step", step}, {"folder", folder.string()}});
}

}  // namespace ferry
