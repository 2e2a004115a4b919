#include "train/step_tally.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "base/median.h"

namespace ferry {
namespace {

template <typename Amount>
Amount median_of(const std::deque<Amount>& steps) {
  if (steps.empty()) return {};
  return median(std::vector(steps.begin(), steps.end()));
}

}  // namespace

void StepTally::add(int step, Micros time, std::int64_t tokens, std::vector<Span> spans) {
  if (++added_ == kWarmUpSteps + 1) {
    times_.clear();
    rates_.clear();
  }
  times_.push_back(time);
  rates_.push_back(time > Micros{} ? static_cast<double>(tokens) / time.seconds() : 0);
  if (times_.size() > kMedianSteps) {
    times_.pop_front();
    rates_.pop_front();
  }
  last_step_ = step;
  spans_.insert(spans_.end(), spans.begin(), spans.end());
  std::erase_if(spans_, [&](const Span& span) { return span.run.step <= step - kKeptSteps; });
}

Micros StepTally::median_step() const { return median_of(times_); }

double StepTally::median_tokens_per_second() const { return median_of(rates_); }

Stall StepTally::last_stall() const {
  FERRY_CHECK(added_ > 0, "a step was added");
  const int step = last_step_;
  Timeline timeline;
  IdVector<ResourceId, Micros> busy(plan_.resources.size());
  for (const Span& span : spans_) {
    if (span.run.step < driven_since_) continue;
    timeline.spans.push_back(span);
    const ResourceId resource = plan_.tasks[span.run.task].resource;
    if (span.run.step != step || plan_.resources[resource].kind != ResourceKind::compute) continue;
    busy[resource] += span.end - span.start;
  }
  const auto most = std::ranges::max_element(busy);
  const StallCauses causes = stall_causes(plan_, timeline, busy.id_of(most), step);
  const Micros whole = *most + causes.total();
  if (whole.count <= 0) return {};
  const auto share = [&](Micros time) { return time.count / whole.count; };
  return {.total = share(causes.total()),
          .copies = share(causes.copies),
          .drives = share(causes.drives),
          .host = share(causes.host),
          .devices = share(causes.devices),
          .other = share(causes.other)};
}

Timeline StepTally::timeline() const {
  Timeline timeline;
  std::ranges::copy_if(spans_, std::back_inserter(timeline.spans),
                       [&](const Span& span) { return span.run.step <= last_step_; });
  std::ranges::stable_sort(timeline.spans, {}, &Span::end);
  return timeline;
}

}  // namespace ferry
