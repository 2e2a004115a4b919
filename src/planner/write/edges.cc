#include "planner/write/edges.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ferry {
namespace {

// A run of the two steps that are replayed: the task's position plus its step times the number of
// tasks.
using RunId = std::int32_t;
constexpr RunId kNone = -1;

// One place's bytes, cut at every border of an instance: what every access touches as a whole.
class Borders {
 public:
  void add(std::int64_t border) { borders_.push_back(border); }
  void sort() {
    std::sort(borders_.begin(), borders_.end());
    borders_.erase(std::unique(borders_.begin(), borders_.end()), borders_.end());
  }
  std::size_t count() const { return borders_.size(); }
  std::size_t segment_at(std::int64_t border) const {
    return std::lower_bound(borders_.begin(), borders_.end(), border) - borders_.begin();
  }

 private:
  std::vector<std::int64_t> borders_;
};

// Who touched a segment last. Of a resource's readers the last one comes behind all others.
struct Segment {
  struct Reader {
    ResourceId resource;
    RunId run;
  };
  RunId writer = kNone;
  std::vector<Reader> readers;  // since the writer, one per resource

  void read_by(ResourceId resource, RunId run) {
    for (Reader& reader : readers) {
      if (reader.resource == resource) {
        reader.run = run;
        return;
      }
    }
    readers.push_back({resource, run});
  }
};

class Replay {
 public:
  explicit Replay(Plan& plan)
      : plan_(plan),
        count_(static_cast<RunId>(plan.tasks.size())),
        resources_(plan.resources.size()),
        clocks_(2 * plan.tasks.size() * resources_, kNone),
        queue_(resources_, kNone) {
    cut_places();
  }

  void run() {
    for (RunId run = 0; run < 2 * count_; ++run) {
      Task& task = plan_.tasks[TaskId(run % count_)];
      find_accesses_before(task, run);
      order(task, run);
    }
  }

 private:
  struct Range {
    std::size_t begin;  // of segments_
    std::size_t end;
  };

  void cut_places() {
    IdVector<PlaceId, Borders> places(plan_.places.size());
    const auto end_of = [&](const Instance& instance) {
      return instance.offset.count + plan_.values[instance.value].bytes.count;
    };
    for (const Instance& instance : plan_.instances) {
      places[instance.place].add(instance.offset.count);
      places[instance.place].add(end_of(instance));
    }
    IdVector<PlaceId, std::size_t> first(places.size());
    std::size_t segments = 0;
    for (const PlaceId p : places.ids()) {
      places[p].sort();
      first[p] = segments;
      segments += places[p].count();
    }
    segments_.resize(segments);
    for (const Instance& instance : plan_.instances) {
      const std::size_t start = first[instance.place];
      const Borders& borders = places[instance.place];
      ranges_.push_back({start + borders.segment_at(instance.offset.count),
                         start + borders.segment_at(end_of(instance))});
    }
  }

  // Fills `before_` with the runs that the task's accesses have to follow.
  void find_accesses_before(const Task& task, RunId run) {
    before_.clear();
    for (const InstanceId id : task.reads) {
      for (Segment& segment : segments_of(id)) {
        follow(segment.writer);
        segment.read_by(task.resource, run);
      }
    }
    for (const InstanceId id : task.writes) {
      for (Segment& segment : segments_of(id)) {
        follow(segment.writer);
        for (const Segment::Reader& reader : segment.readers) follow(reader.run);
        segment.writer = run;
        segment.readers.clear();
      }
    }
    std::erase(before_, run);                     // a task that writes what it reads
    std::sort(before_.rbegin(), before_.rend());  // the latest first: it implies most
    before_.erase(std::unique(before_.begin(), before_.end()), before_.end());
  }

  std::span<Segment> segments_of(InstanceId id) {
    const Range range = ranges_[id];
    return std::span(segments_).subspan(range.begin, range.end - range.begin);
  }

  void follow(RunId earlier) {
    if (earlier == kNone || (!before_.empty() && before_.back() == earlier)) return;
    before_.push_back(earlier);
  }

  void order(Task& task, RunId run) {
    const std::span<RunId> clock = clock_of(run);
    RunId& queue = queue_[task.resource];
    if (queue != kNone) std::ranges::copy(clock_of(queue), clock.begin());
    task.after.clear();
    task.after_previous.clear();
    for (const RunId earlier : before_) {
      const Task& other = plan_.tasks[TaskId(earlier % count_)];
      if (clock[other.resource.index()] >= earlier) continue;
      const bool same_step = earlier / count_ == run / count_;
      auto& edges = same_step ? task.after : task.after_previous;
      edges.push_back(TaskId(earlier % count_));
      const std::span<const RunId> theirs = clock_of(earlier);
      for (std::size_t r = 0; r < resources_; ++r) clock[r] = std::max(clock[r], theirs[r]);
    }
    clock[task.resource.index()] = run;
    std::sort(task.after.begin(), task.after.end());
    std::sort(task.after_previous.begin(), task.after_previous.end());
    queue = run;
  }

  // For each resource the last run that is known to come before: one logical clock per run.
  std::span<RunId> clock_of(RunId run) {
    return std::span(clocks_).subspan(run * resources_, resources_);
  }

  Plan& plan_;
  const RunId count_;
  const std::size_t resources_;
  std::vector<Segment> segments_;  // of all places, one behind the other
  IdVector<InstanceId, Range> ranges_;
  std::vector<RunId> clocks_;
  IdVector<ResourceId, RunId> queue_;  // the last run of each resource
  std::vector<RunId> before_;
};

}  // namespace

void order_accesses(Plan& plan) { Replay(plan).run(); }

}  // namespace ferry
