#include "train/device_pace.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>

#include "base/median.h"

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

struct Range {
  Micros begin, end;
};

/// From the end of all before `first_step`, in equal parts.
std::vector<Range> parts_behind(const std::vector<Span>& spans, int first_step) {
  constexpr int kParts = 5;
  Micros begin, end;
  for (const Span& span : spans) {
    end = std::max(end, span.end);
    if (span.run.step < first_step) begin = std::max(begin, span.end);
  }
  const Micros part = (end - begin) * (1.0 / kParts);
  std::vector<Range> parts;
  for (int i = 0; i < kParts; ++i) parts.push_back({begin + part * i, begin + part * (i + 1)});
  return parts;
}

/// How a task began.
struct Start {
  Micros delay;   // behind the end of all that it waited for
  TaskRun after;  // of that, what ended last
};

/// Of all that ran; `after` is the task itself where it waited for nothing that ran.
std::map<TaskRun, Start> starts(const Plan& plan, std::vector<Span> spans) {
  std::map<TaskRun, Micros> ends;
  for (const Span& span : spans) ends[span.run] = span.end;
  std::map<TaskRun, Start> found;
  IdVector<ResourceId, std::optional<TaskRun>> last(plan.resources.size());
  std::ranges::sort(spans, {}, &Span::start);
  for (const Span& span : spans) {
    Start start{.delay = {}, .after = span.run};
    Micros ready;
    const auto wait_for = [&](TaskRun earlier) {
      const auto end = ends.find(earlier);
      if (end == ends.end() || end->second < ready) return;
      ready = end->second;
      start.after = earlier;
    };
    const Task& task = plan.tasks[span.run.task];
    for (const TaskId earlier : task.after) wait_for({span.run.step, earlier});
    for (const TaskId earlier : task.after_previous) wait_for({span.run.step - 1, earlier});
    if (const auto before = std::exchange(last[task.resource], span.run)) wait_for(*before);
    if (start.after != span.run) start.delay = std::max(Micros{}, span.start - ready);
    found[span.run] = start;
  }
  return found;
}

double median_or_zero(std::vector<double> values) {
  return values.empty() ? 0 : median(std::move(values));
}

}  // namespace

double computing_rate(const Plan& plan, const std::vector<Span>& spans, int first_step, int least) {
  std::vector<double> rates;
  for (const Range& part : parts_behind(spans, first_step)) {
    const double rate = mean_rate(plan, spans, least, part.begin, part.end);
    if (rate > 0) rates.push_back(rate);
  }
  return median_or_zero(std::move(rates));
}

StartingDelays starting_delays(const Plan& plan, const std::vector<Span>& spans, int first_step) {
  const auto kind_of = [&](TaskRun run) {
    return plan.resources[plan.tasks[run.task].resource].kind;
  };
  const std::map<TaskRun, Start> all = starts(plan, spans);
  std::vector<double> tasks, copies;
  for (const auto& [run, start] : all) {
    if (run.step < first_step || kind_of(run) != ResourceKind::compute || start.after == run)
      continue;
    const ResourceKind after = kind_of(start.after);
    if (after == ResourceKind::compute) tasks.push_back(start.delay.count);
    if (after == ResourceKind::copy) {
      copies.push_back((start.delay + all.at(start.after).delay).count);
    }
  }
  // Few copies are those of long tasks, where some milliseconds are no delay of theirs.
  constexpr std::size_t kFewest = 30;
  if (copies.size() < kFewest) copies.clear();
  return {.task = {median_or_zero(std::move(tasks))}, .copy = {median_or_zero(std::move(copies))}};
}

}  // namespace ferry
