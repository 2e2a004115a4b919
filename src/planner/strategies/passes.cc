#include "planner/strategies/passes.h"

namespace ferry {

Passes::Passes(const PlanQuestion& question) : without_(listed_names(question.options.without)) {}

bool Passes::has(const char* name) const {
  return std::ranges::find(without_, name) == without_.end();
}

void Passes::found(Micros step) {
  fastest_ = std::min(fastest_, step);
  found_ = std::min(found_, step);
}

/// Of a run that was given what the devices do not hold `before` is the fastest that they do: it
/// ended with what it found that is faster, if anything.
void Passes::note(const char* name, Clock::time_point start, Micros before) {
  const std::chrono::duration<double> took = Clock::now() - start;
  auto report = std::ranges::find(reports_, name, &PassReport::name);
  if (report == reports_.end()) {
    report = reports_.insert(report, {.name = name});
  }
  ++report->runs;
  report->seconds += took.count();
  if (found_ <= before && found_ < report->after.value_or(kNever)) {
    report->before = before;
    report->after = found_;
  }
}

}  // namespace ferry
