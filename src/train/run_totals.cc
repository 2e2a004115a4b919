#include "train/run_totals.h"

#include <algorithm>

#include "base/check.h"
#include "report/report.h"
#include "spec/drive_array.h"

namespace ferry {

RunTotals::RunTotals(Setup setup) : setup_(setup) {
  const Plan& plan = setup_.train.plan;
  for (const PlaceId id : plan.places.ids()) {
    const Place& place = plan.places[id];
    const Bytes peak = peak_bytes(setup_.plans, id);
    FERRY_CHECK(peak <= place.budget, place.name + ": the plans of one run fit together");
    summary_.predicted_peak[place.name] = peak;
  }
  for (const DriveUse& use : drive_use(plan)) {
    const Place& place = plan.places[use.place];
    summary_.predicted_drive_bytes[place.name] = {use.read, use.written};
    const auto steps =
        drive_life_steps(use, drive_array(setup_.train.machine, place.budget).endurance);
    if (steps) summary_.drive_life_steps[place.name] = *steps;
  }
  summary_.drive_io = setup_.drives.io();
  summary_.tokenising_peak = setup_.train.tokenising_peak;
}

std::map<std::string, Bytes> RunTotals::peaks() {
  std::map<std::string, Bytes> peaks;
  for (const PlaceId id : setup_.places.ids()) {
    PlaceMemory& place = setup_.places[id];
    Bytes& peak = peaks[place.name];
    if (place.device) peak = setup_.places.device_peak(id);
    if (place.host) peak = std::max(setup_.host_memory.peak(), summary_.tokenising_peak);
    if (place.drive) peak = place.drive->size();  // all taken at the start
  }
  return peaks;
}

void RunTotals::step(const StepReport& report, float scale) {
  for (const auto& [place, moved] : report.drive_bytes) {
    summary_.drive_bytes[place].read += moved.read;
    summary_.drive_bytes[place].written += moved.written;
  }
  ++summary_.steps_here;
  if (setup_.train.job.optim.clip > 0) {
    summary_.clipped_steps = summary_.clipped_steps.value_or(0) + (scale < 1 ? 1 : 0);
  }
  summary_.final_loss = report.loss;
  summary_.tokens += report.tokens;
  summary_.stepping_seconds += report.step_seconds;
}

const TrainSummary& RunTotals::summary(int done, const std::filesystem::path& newest,
                                       RunState state, const std::string& reason) {
  summary_.state = state;
  summary_.reason = reason;
  summary_.steps_done = done;
  summary_.measured_step = setup_.tally.median_step();
  summary_.tokens_per_second = setup_.tally.median_tokens_per_second();
  summary_.seconds = since(begun_).seconds();
  summary_.measured_peak = peaks();
  summary_.checkpoint = newest;
  for (const Place& place : setup_.train.plan.places) {
    if (place.kind != PlaceKind::host) continue;
    summary_.beside_plan =
        std::max(0_B, setup_.host_memory.peak() - summary_.predicted_peak.at(place.name));
  }
  return summary_;
}

}  // namespace ferry
