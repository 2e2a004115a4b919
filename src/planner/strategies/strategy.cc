#include "planner/strategies/strategy.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>

#include "exec/simulator.h"
#include "plan/purposes.h"

namespace ferry {
namespace {

// The largest first.
std::vector<std::pair<std::string, Bytes>> breakdown_of(const Plan& plan, PlaceId place) {
  std::vector<std::pair<std::string, Bytes>> result;
  for (const auto& [purpose, bytes] : bytes_by_purpose(plan, place)) {
    if (bytes > Bytes{}) result.emplace_back(to_string(purpose), bytes);
  }
  std::ranges::stable_sort(result, std::greater(), &std::pair<std::string, Bytes>::second);
  return result;
}

}  // namespace

Micros expected_step(const PlanQuestion& question, Micros step, Micros clipped_step) {
  if (clipped_step == Micros{}) return step;
  const double share = question.options.clipped.value_or(kClippedSteps);
  return step * (1 - share) + clipped_step * share;
}

Micros expected_step(const PlanQuestion& question, const StrategyPlan& found) {
  return expected_step(question, found.prediction.step, found.clipped_step);
}

Micros clipped_step(Plan plan, const StepSimulator& simulator) {
  if (std::ranges::find(plan.tasks, TaskKind::redo, &Task::kind) == plan.tasks.end()) return {};
  return simulator.step_of(clipped(std::move(plan)));
}

std::vector<StageReport> stage_reports(const Machine& machine,
                                       const std::vector<StageVisit>& visits) {
  std::vector<StageReport> reports;
  for (const StageVisit& visit : visits) {
    if (visit.first_batch > 0) continue;
    reports.push_back(
        {visit.direction, machine.devices[visit.device].name, visit.first, visit.end});
  }
  return reports;
}

std::vector<StageReport> stage_reports(const Machine& machine, const std::vector<int>& ends,
                                       const std::vector<int>& device_of_stage,
                                       Direction direction) {
  std::vector<StageVisit> visits;
  int first = 0;
  for (std::size_t s = 0; s < ends.size(); ++s) {
    visits.push_back({direction, device_of_stage[s], first, ends[s], 0, 1});
    first = ends[s];
  }
  return stage_reports(machine, visits);
}

std::vector<Shortage> shortages(const Plan& plan) {
  std::vector<Shortage> result;
  for (std::size_t p = 0; p < plan.places.size(); ++p) {
    const auto id = static_cast<PlaceId>(p);
    const Place& place = plan.places[p];
    const Bytes need = peak_bytes(plan, id);
    if (need <= place.budget) continue;
    result.push_back({place.name, place.kind, need, place.budget, breakdown_of(plan, id)});
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const Shortage& a, const Shortage& b) { return a.missing() > b.missing(); });
  return result;
}

}  // namespace ferry
