#include "report/report.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/drive_page.h"

namespace ferry {
namespace {

int last_step(const Timeline& timeline) {
  int last = 0;
  for (const Span& span : timeline.spans) last = std::max(last, span.run.step);
  return last;
}

// Calls act(task, span) for every task of the last simulated step.
template <typename Act>
void for_last_step(const Plan& plan, const Timeline& timeline, const Act& act) {
  const int last = last_step(timeline);
  for (const Span& span : timeline.spans) {
    if (span.run.step == last) act(plan.tasks[span.run.task], span);
  }
}

double rounded_to_six_digits(double number) {
  if (number <= 0) return 0;
  const double unit = std::pow(10.0, std::floor(std::log10(number)) - 5);
  return std::round(number / unit) * unit;
}

// How long a task draws on its resource's pools at full speed.
Micros drawing_time(const Plan& plan, const Task& task) {
  if (task.kind != TaskKind::copy) return task.micros;
  const auto bytes = static_cast<double>(moved_bytes(task).count);
  return from_seconds(bytes / plan.resources[task.resource].rate);
}

// Where a plan has no values its copies tell what they move, and the names of their queues whether
// that is read or written.
std::vector<DriveUse> drive_use_of_queues(const Plan& plan) {
  std::vector<DriveUse> uses;
  for (const PlaceId p : plan.places.ids()) {
    if (plan.places[p].kind == PlaceKind::drive) uses.push_back({p, {}, {}});
  }
  for (const Task& task : plan.tasks) {
    const Resource& queue = plan.resources[task.resource];
    const auto use = std::ranges::find(uses, queue.place, &DriveUse::place);
    if (use == uses.end()) continue;
    if (queue.name.ends_with("read")) use->read += task.bytes;
    if (queue.name.ends_with("write")) use->written += task.bytes;
  }
  return uses;
}

}  // namespace

std::vector<Bubble> bubbles(const Plan& plan, const Simulation& simulation) {
  struct Extent {
    Micros start{std::numeric_limits<double>::infinity()};
    Micros end;
  };
  IdVector<ResourceId, Extent> extents(plan.resources.size());
  for_last_step(plan, simulation.timeline, [&](const Task& task, const Span& span) {
    Extent& extent = extents[task.resource];
    extent.start = std::min(extent.start, span.start);
    extent.end = std::max(extent.end, span.end);
  });
  const auto idle = [](Micros busy, Micros of) {
    return of.count > 0 ? std::max(0.0, 1 - busy.count / of.count) : 0.0;
  };
  std::vector<Bubble> found;
  for (const ResourceId r : plan.resources.ids()) {
    if (plan.resources[r].kind != ResourceKind::compute) continue;
    const Micros busy = simulation.use[r].busy;
    found.push_back(
        {r, idle(busy, simulation.step), idle(busy, extents[r].end - extents[r].start)});
  }
  return found;
}

double mean_bubble(const std::vector<Bubble>& bubbles) {
  double sum = 0;
  for (const Bubble& bubble : bubbles) sum += bubble.of_step;
  return bubbles.empty() ? 0 : sum / static_cast<double>(bubbles.size());
}

IdVector<PoolId, PoolUse> pool_use(const Plan& plan, const Simulation& simulation) {
  IdVector<PoolId, PoolUse> uses(plan.pools.size());
  for (const Task& task : plan.tasks) {
    const Micros time = drawing_time(plan, task);
    for (const Draw& draw : plan.resources[task.resource].draws) {
      PoolUse& use = uses[draw.pool];
      use.utilisation += draw.rate * time.count;
      use.bytes += moved_bytes(task);
    }
  }
  for (const PoolId p : uses.ids()) {
    const double most = plan.pools[p].capacity * simulation.step.count;
    uses[p].utilisation = most > 0 ? uses[p].utilisation / most : 0;
  }
  return uses;
}

Bytes BandwidthCdf::bytes_above(double bytes_per_second) const {
  const auto first_above =
      std::ranges::upper_bound(points, bytes_per_second, {}, &Point::bytes_per_second);
  return first_above == points.begin() ? total() : total() - std::prev(first_above)->bytes;
}

double BandwidthCdf::share_above(double bytes_per_second) const {
  const auto all = static_cast<double>(total().count);
  return all > 0 ? static_cast<double>(bytes_above(bytes_per_second).count) / all : 0;
}

double BandwidthCdf::quantile(double share) const {
  const double wanted = share * static_cast<double>(total().count);
  for (const Point& point : points) {
    if (static_cast<double>(point.bytes.count) >= wanted) return point.bytes_per_second;
  }
  return points.empty() ? 0 : points.back().bytes_per_second;
}

BandwidthCdf bandwidth_cdf(const Plan& plan, const Simulation& simulation) {
  BandwidthCdf cdf;
  for_last_step(plan, simulation.timeline, [&](const Task& task, const Span& span) {
    const Bytes bytes = moved_bytes(task);
    if (task.kind != TaskKind::copy || bytes <= Bytes{}) return;
    const double rate = plan.resources[task.resource].rate;
    const double seconds = (span.end - span.start).seconds();
    // A copy too short for the clock's digits has no duration.
    const double bandwidth =
        seconds > 0 ? std::min(rate, static_cast<double>(bytes.count) / seconds) : rate;
    cdf.points.push_back({rounded_to_six_digits(bandwidth), bytes});
  });
  std::ranges::sort(cdf.points, {}, &BandwidthCdf::Point::bytes_per_second);
  std::vector<BandwidthCdf::Point> merged;
  Bytes moved;
  for (const BandwidthCdf::Point& point : cdf.points) {
    moved += point.bytes;
    if (merged.empty() || merged.back().bytes_per_second < point.bytes_per_second) {
      merged.push_back(point);
    }
    merged.back().bytes = moved;
  }
  cdf.points = std::move(merged);
  return cdf;
}

std::vector<BandwidthCdf::Point> thinned(const BandwidthCdf& cdf, std::size_t count) {
  FERRY_CHECK(count > 0, "a thinned curve needs a point");
  if (cdf.points.size() <= count) return cdf.points;
  std::vector<BandwidthCdf::Point> kept;
  const double share = static_cast<double>(cdf.total().count) / static_cast<double>(count);
  for (const BandwidthCdf::Point& point : cdf.points) {
    const double wanted = share * static_cast<double>(kept.size() + 1);
    if (static_cast<double>(point.bytes.count) >= wanted) kept.push_back(point);
  }
  if (kept.empty() || kept.back().bytes < cdf.total()) kept.push_back(cdf.points.back());
  return kept;
}

std::vector<DriveUse> drive_use(const Plan& plan) {
  if (plan.timing_only) return drive_use_of_queues(plan);
  std::vector<DriveUse> uses;
  IdVector<PlaceId, std::size_t> use_of(plan.places.size());
  for (const PlaceId p : plan.places.ids()) {
    use_of[p] = uses.size();
    if (plan.places[p].kind == PlaceKind::drive) uses.push_back({p, {}, {}});
  }
  const auto add = [&](InstanceId id, Bytes DriveUse::*sum) {
    const Instance& instance = plan.instances[id];
    if (plan.places[instance.place].kind != PlaceKind::drive) return;
    uses[use_of[instance.place]].*sum += round_up(plan.values[instance.value].bytes, kDrivePage);
  };
  for (const Task& task : plan.tasks) {
    for (const InstanceId id : task.reads) add(id, &DriveUse::read);
    for (const InstanceId id : task.writes) add(id, &DriveUse::written);
  }
  return uses;
}

std::optional<double> drive_life_steps(const DriveUse& use, std::optional<Bytes> endurance) {
  if (!endurance || use.written <= 0_B) return std::nullopt;
  return std::floor(static_cast<double>(endurance->count) / static_cast<double>(use.written.count));
}

}  // namespace ferry
