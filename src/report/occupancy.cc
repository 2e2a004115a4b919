#include "report/occupancy.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "plan/at_home.h"

namespace ferry {
namespace {

// The lives that lie in one place's bytes now, disjoint, by their first byte.
class Tenants {
 public:
  // Begins a life in [begin, end) and ends those that lie there.
  void replace(std::int64_t begin, std::int64_t end, const Life& life, std::vector<Life>& ended) {
    auto tenant = tenants_.lower_bound(begin);
    if (tenant != tenants_.begin() && std::prev(tenant)->second.end > begin) --tenant;
    while (tenant != tenants_.end() && tenant->first < end) {
      Life& old = tenant->second.life;
      old.to = std::min(old.to, std::max(old.from, life.from));
      ended.push_back(old);
      tenant = tenants_.erase(tenant);
    }
    tenants_.emplace(begin, Tenant{end, life});
  }

  // Prolongs the life of `instance`, if it still lies at `begin`.
  void prolong(std::int64_t begin, InstanceId instance, Micros to) {
    const auto tenant = tenants_.find(begin);
    if (tenant == tenants_.end() || tenant->second.life.instance != instance) return;
    tenant->second.life.to = std::max(tenant->second.life.to, to);
  }

  void end_all(std::vector<Life>& ended) {
    for (const auto& [begin, tenant] : tenants_) ended.push_back(tenant.life);
    tenants_.clear();
  }

 private:
  struct Tenant {
    std::int64_t end = 0;
    Life life;
  };

  std::map<std::int64_t, Tenant> tenants_;
};

// In order of start; of equal starts, what ended first first: a task of no duration may have let
// the other one start.
std::vector<Span> by_start(const Timeline& timeline) {
  std::vector<Span> spans = timeline.spans;
  std::ranges::stable_sort(spans, {}, &Span::start);
  return spans;
}

struct Change {
  Micros at;
  Bytes by;
};

std::vector<Level> staircase(std::vector<Change> changes) {
  std::ranges::sort(changes, {}, &Change::at);
  std::vector<Level> levels;
  Bytes now;
  for (std::size_t i = 0; i < changes.size();) {
    const Micros at = changes[i].at;
    for (; i < changes.size() && changes[i].at == at; ++i) now += changes[i].by;
    if ((levels.empty() ? Bytes{} : levels.back().bytes) != now) levels.push_back({at, now});
  }
  return levels;
}

void hold(std::vector<Change>& changes, Micros from, Micros to, Bytes bytes) {
  if (bytes <= Bytes{}) return;
  changes.push_back({from, bytes});
  changes.push_back({to, Bytes{} - bytes});
}

}  // namespace

std::vector<Life> lives(const Plan& plan, const Timeline& timeline) {
  std::vector<Life> found;
  if (timeline.spans.empty()) return found;
  const std::vector<Span> spans = by_start(timeline);
  Micros end;
  for (const Span& span : spans) end = std::max(end, span.end);
  for (const InstanceId id : plan.instances.ids()) {
    if (plan.instances[id].home) found.push_back({id, spans.front().start, end});
  }

  IdVector<PlaceId, Tenants> tenants(plan.places.size());
  for (const Span& span : spans) {
    const Task& task = plan.tasks[span.run.task];
    for (const InstanceId id : task.reads) {
      const Instance& read = plan.instances[id];
      tenants[read.place].prolong(read.offset.count, id, span.end);
    }
    for (const InstanceId id : task.writes) {
      const Instance& written = plan.instances[id];
      const bool extends = std::ranges::find(task.reads, id) != task.reads.end();
      if (written.home || extends) continue;
      const std::int64_t begin = written.offset.count;
      const std::int64_t past = begin + plan.values[written.value].bytes.count;
      tenants[written.place].replace(begin, past, {id, span.start, span.end}, found);
    }
  }
  for (Tenants& place : tenants) place.end_all(found);
  std::ranges::sort(found, {}, [&](const Life& life) {
    return std::tuple(plan.instances[life.instance].place, life.from, life.instance);
  });
  return found;
}

IdVector<PlaceId, PlaceLevels> bytes_over_time(const Plan& plan, const Timeline& timeline) {
  using ByKind = std::array<std::vector<Change>, PlaceLevels::kKinds>;
  struct Changes {
    ByKind at_home, passing;
    std::vector<Change> workspace;
  };
  IdVector<PlaceId, Changes> changes(plan.places.size());
  const IdVector<InstanceId, bool> rests = at_home(plan);
  for (const Life& life : lives(plan, timeline)) {
    const Instance& instance = plan.instances[life.instance];
    const Value& value = plan.values[instance.value];
    Changes& place = changes[instance.place];
    ByKind& of = rests[life.instance] ? place.at_home : place.passing;
    hold(of[to_index(value.kind)], life.from, life.to, value.bytes);
  }
  for (const Span& span : timeline.spans) {
    const Task& task = plan.tasks[span.run.task];
    const PlaceId place = plan.resources[task.resource].place;
    hold(changes[place].workspace, span.start, span.end, task.workspace);
  }

  IdVector<PlaceId, PlaceLevels> levels(plan.places.size());
  for (const PlaceId p : plan.places.ids()) {
    std::vector<Change> all = changes[p].workspace;
    for (std::size_t kind = 0; kind < PlaceLevels::kKinds; ++kind) {
      for (ByKind* of : {&changes[p].at_home, &changes[p].passing}) {
        all.insert(all.end(), (*of)[kind].begin(), (*of)[kind].end());
      }
      levels[p].at_home[kind] = staircase(std::move(changes[p].at_home[kind]));
      levels[p].passing[kind] = staircase(std::move(changes[p].passing[kind]));
    }
    levels[p].workspace = staircase(std::move(changes[p].workspace));
    levels[p].total = staircase(std::move(all));
  }
  return levels;
}

Bytes highest(const std::vector<Level>& levels) {
  Bytes most;
  for (const Level& level : levels) most = std::max(most, level.bytes);
  return most;
}

}  // namespace ferry
