#include "planner/strategies/passes.h"

namespace ferry {

Passes::Passes(const PlanQuestion& question) : without_(listed_names(question.options.without)) {}

bool Passes::has(const char* name) const {
  return std::ranges::find(without_, name) == without_.end();
}

void Passes::note(const char* name, Clock::time_point start, Micros before, Micros after) {
  const std::chrono::duration<double> took = Clock::now() - start;
  auto report = std::ranges::find(reports_, name, &PassReport::name);
  if (report == reports_.end()) {
    report = reports_.insert(report, {name, 0, 0, before, after});
  }
  ++report->runs;
  report->seconds += took.count();
  if (after < report->after) {
    report->before = before;
    report->after = after;
  }
}

}  // namespace ferry
