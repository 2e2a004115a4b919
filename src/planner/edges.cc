#include "planner/edges.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>

namespace ferry {
namespace {

// A run of the two steps that are replayed: the task's position plus its step times the number of
// tasks.
using RunId = std::int64_t;
constexpr RunId kNone = -1;

std::size_t index(std::int64_t id) { return static_cast<std::size_t>(id); }

// The bytes of one place, cut into segments that every access so far has touched as a whole.
class AccessedBytes {
 public:
  /// Appends to `before` the runs that must come before a read of [begin, end).
  void read(std::int64_t begin, std::int64_t end, RunId run, std::vector<RunId>& before) {
    visit(begin, end, [&](Segment& segment) {
      if (segment.writer != kNone) before.push_back(segment.writer);
      segment.readers.push_back(run);
    });
  }

  void write(std::int64_t begin, std::int64_t end, RunId run, std::vector<RunId>& before) {
    visit(begin, end, [&](Segment& segment) {
      if (segment.writer != kNone) before.push_back(segment.writer);
      before.insert(before.end(), segment.readers.begin(), segment.readers.end());
      segment.writer = run;
      segment.readers.clear();
    });
  }

 private:
  struct Segment {
    std::int64_t end = 0;
    RunId writer = kNone;
    std::vector<RunId> readers;  // since the writer
  };
  using Segments = std::map<std::int64_t, Segment>;

  // Makes `at` a border of segments, if it lies in one.
  void cut(std::int64_t at) {
    auto next = segments_.lower_bound(at);
    if (next == segments_.begin()) return;
    auto& [begin, segment] = *std::prev(next);
    if (segment.end <= at) return;
    Segment rest = segment;
    segment.end = at;
    segments_.emplace_hint(next, at, std::move(rest));
  }

  template <typename Action>
  void visit(std::int64_t begin, std::int64_t end, Action action) {
    cut(begin);
    cut(end);
    std::int64_t at = begin;
    for (auto next = segments_.lower_bound(begin); at < end;) {
      if (next == segments_.end() || next->first > at) {  // bytes that nobody touched so far
        const std::int64_t gap_end = next == segments_.end() ? end : std::min(end, next->first);
        next = segments_.emplace_hint(next, at, Segment{gap_end, kNone, {}});
      }
      action(next->second);
      at = next->second.end;
      ++next;
    }
  }

  Segments segments_;  // begin -> segment, disjoint
};

// For each resource the last run that is known to come before: one logical clock per run.
using Clock = std::vector<RunId>;

class Replay {
 public:
  explicit Replay(Plan& plan)
      : plan_(plan),
        count_(static_cast<RunId>(plan.tasks.size())),
        places_(plan.places.size()),
        clocks_(plan.tasks.size() * 2),
        queue_(plan.resources.size(), Clock(plan.resources.size(), kNone)) {}

  void run() {
    for (RunId run = 0; run < 2 * count_; ++run) {
      Task& task = plan_.tasks[index(run % count_)];
      std::vector<RunId> before = accesses_before(task, run);
      std::sort(before.rbegin(), before.rend());  // the latest first: it implies most
      before.erase(std::unique(before.begin(), before.end()), before.end());
      order(task, run, before);
    }
  }

 private:
  std::vector<RunId> accesses_before(const Task& task, RunId run) {
    std::vector<RunId> before;
    const auto touch = [&](InstanceId id, auto access) {
      const Instance& instance = plan_.instances[index(id)];
      const std::int64_t begin = instance.offset.count;
      const std::int64_t end = begin + plan_.values[index(instance.value)].bytes.count;
      (places_[index(instance.place)].*access)(begin, end, run, before);
    };
    for (const InstanceId id : task.reads) touch(id, &AccessedBytes::read);
    for (const InstanceId id : task.writes) touch(id, &AccessedBytes::write);
    std::erase(before, run);  // a task that writes what it reads
    return before;
  }

  void order(Task& task, RunId run, const std::vector<RunId>& before) {
    const auto resource = index(task.resource);
    Clock clock = queue_[resource];
    task.after.clear();
    task.after_previous.clear();
    for (const RunId earlier : before) {
      const Task& other = plan_.tasks[index(earlier % count_)];
      if (clock[index(other.resource)] >= earlier) continue;
      const bool same_step = earlier / count_ == run / count_;
      auto& edges = same_step ? task.after : task.after_previous;
      edges.push_back(static_cast<TaskId>(earlier % count_));
      const Clock& theirs = clocks_[index(earlier)];
      for (std::size_t r = 0; r < clock.size(); ++r) clock[r] = std::max(clock[r], theirs[r]);
    }
    clock[resource] = run;
    std::sort(task.after.begin(), task.after.end());
    std::sort(task.after_previous.begin(), task.after_previous.end());
    queue_[resource] = clock;
    clocks_[index(run)] = std::move(clock);
  }

  Plan& plan_;
  RunId count_;
  std::vector<AccessedBytes> places_;
  std::vector<Clock> clocks_;
  std::vector<Clock> queue_;  // of the last run of each resource
};

}  // namespace

void order_accesses(Plan& plan) { Replay(plan).run(); }

}  // namespace ferry
