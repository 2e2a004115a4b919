#include "planner/write/edges.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/short_vector.h"

namespace ferry {
namespace {

// A run of the two steps that are replayed: the task's position plus its step times the number of
// tasks.
using RunId = std::int32_t;
constexpr RunId kNone = -1;

// Clocks are merged by so many entries at once, which compilers turn into vectors.
constexpr std::size_t kLanes = 8;

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
  ShortVector<Reader, 4> readers;  // since the writer, one per resource

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
  /// `clocks`: of any size and contents.
  Replay(Plan& plan, std::vector<RunId>& clocks)
      : plan_(plan),
        count_(static_cast<RunId>(plan.tasks.size())),
        row_((plan.resources.size() + kLanes - 1) / kLanes * kLanes),
        clocks_(clocks),
        queue_(plan.resources.size(), kNone) {
    const std::size_t entries = 2 * plan.tasks.size() * row_;
    if (clocks_.size() < entries) clocks_.resize(entries);
    resource_of_.reserve(plan.tasks.size());
    for (const Task& task : plan.tasks) resource_of_.push_back(task.resource);
    cut_places();
  }

  void run() {
    for (RunId run = 0; run < 2 * count_; ++run) {
      Task& task = plan_.tasks[task_of(run)];
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
    RunId* const clock = clock_of(run);
    RunId& queue = queue_[task.resource];
    if (queue != kNone) {
      std::copy_n(clock_of(queue), row_, clock);
    } else {
      std::fill_n(clock, row_, kNone);
    }
    after_.clear();
    after_previous_.clear();
    for (const RunId earlier : before_) {
      const TaskId other = task_of(earlier);
      if (clock[resource_of_[other].index()] >= earlier) continue;
      const bool same_step = (earlier < count_) == (run < count_);
      (same_step ? after_ : after_previous_).push_back(other);
      merge(clock, clock_of(earlier));
    }
    clock[task.resource.index()] = run;
    std::sort(after_.begin(), after_.end());
    std::sort(after_previous_.begin(), after_previous_.end());
    task.after.assign(after_.begin(), after_.end());
    task.after_previous.assign(after_previous_.begin(), after_previous_.end());
    queue = run;
  }

  void merge(RunId* clock, const RunId* other) const {
    for (std::size_t r = 0; r < row_; r += kLanes) {
      for (std::size_t lane = r; lane < r + kLanes; ++lane) {
        clock[lane] = std::max(clock[lane], other[lane]);
      }
    }
  }

  TaskId task_of(RunId run) const { return TaskId(run < count_ ? run : run - count_); }

  // For each resource the last run that is known to come before: one logical clock per run.
  RunId* clock_of(RunId run) { return clocks_.data() + static_cast<std::size_t>(run) * row_; }

  Plan& plan_;
  const RunId count_;
  const std::size_t row_;  // entries of a clock: the resources, and what fills the last lanes
  IdVector<TaskId, ResourceId> resource_of_;
  std::vector<Segment> segments_;  // of all places, one behind the other
  IdVector<InstanceId, Range> ranges_;
  std::vector<RunId>& clocks_;         // by run, each written when the run is ordered
  IdVector<ResourceId, RunId> queue_;  // the last run of each resource
  std::vector<RunId> before_;
  std::vector<TaskId> after_;  // of the task in progress
  std::vector<TaskId> after_previous_;
};

}  // namespace

void order_accesses(Plan& plan) {
  std::vector<RunId> clocks;
  Replay(plan, clocks).run();
}

void AccessOrder::set(Plan& plan) const {
  auto clocks = clocks_.take([](const auto&) { return true; });
  if (!clocks) clocks = std::make_unique<std::vector<RunId>>();
  Replay(plan, *clocks).run();
  clocks_.give_back(std::move(clocks));
}

}  // namespace ferry
