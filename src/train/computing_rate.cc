#include "train/computing_rate.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "train/median.h"

namespace ferry {
namespace {

bool share_a_pool(const Resource& one, const Resource& other) {
  return std::ranges::any_of(one.draws, [&](const Draw& draw) {
    return std::ranges::find(other.draws, draw.pool, &Draw::pool) != other.draws.end();
  });
}

/// Whether the host's tasks there take what computing takes.
bool is_rival(const Plan& plan, const Resource& resource) {
  return resource.kind == ResourceKind::host &&
         std::ranges::any_of(plan.resources, [&](const Resource& each) {
           return each.kind == ResourceKind::compute && share_a_pool(each, resource);
         });
}

/// What goes on at a time.
struct Moment {
  int computing = 0;  // devices
  bool rivals = false;
  double rate = 0;  // of the devices' planned times
};

Moment moment_at(const Plan& plan, const std::vector<Span>& spans, Micros time) {
  Moment found;
  for (const Span& span : spans) {
    if (time < span.start || span.end <= time) continue;
    const Task& task = plan.tasks[span.run.task];
    const Resource& resource = plan.resources[task.resource];
    if (resource.kind == ResourceKind::compute) {
      ++found.computing;
      found.rate += task.micros.count / (span.end - span.start).count;
    } else if (is_rival(plan, resource)) {
      found.rivals = true;
    }
  }
  return found;
}

/// Between two times; 0: there is no such moment.
double mean_rate(const Plan& plan, const std::vector<Span>& spans, int least, Micros begin,
                 Micros end) {
  std::vector<Span> here;
  std::vector<Micros> changes = {begin, end};
  for (const Span& span : spans) {
    if (span.end <= begin || end <= span.start) continue;
    here.push_back(span);
    changes.push_back(std::max(span.start, begin));
    changes.push_back(std::min(span.end, end));
  }
  std::ranges::sort(changes);
  Micros time;
  double work = 0;
  for (std::size_t i = 1; i < changes.size(); ++i) {
    const Micros lasts = changes[i] - changes[i - 1];
    if (lasts <= Micros{}) continue;
    const Moment moment = moment_at(plan, here, changes[i - 1]);
    if (moment.rivals || moment.computing < least) continue;
    time += lasts;
    work += moment.rate * lasts.count;
  }
  return time > Micros{} ? work / time.count : 0;
}

}  // namespace

double computing_rate(const Plan& plan, const std::vector<Span>& spans, int first_step, int least) {
  constexpr int kParts = 5;
  Micros begin, end;
  for (const Span& span : spans) {
    end = std::max(end, span.end);
    if (span.run.step < first_step) begin = std::max(begin, span.end);
  }
  std::vector<double> rates;
  const Micros part = (end - begin) * (1.0 / kParts);
  for (int i = 0; i < kParts; ++i) {
    const Micros from = begin + part * i;
    const double rate = mean_rate(plan, spans, least, from, from + part);
    if (rate > 0) rates.push_back(rate);
  }
  return rates.empty() ? 0 : median(std::move(rates));
}

}  // namespace ferry
