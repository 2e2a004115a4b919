#include "plan/drive_copies.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/drive_page.h"

namespace ferry {
namespace {

class PageRules {
 public:
  PageRules(const Plan& plan, Findings& findings) : plan_(plan), findings_(findings) {}

  void check() {
    for (const TaskId id : plan_.tasks.ids()) {
      const Task& task = plan_.tasks[id];
      if (task.kind != TaskKind::copy) continue;
      const InstanceId from = task.reads.front(), to = task.writes.front();
      if (kind_of(from) != PlaceKind::drive && kind_of(to) != PlaceKind::drive) continue;
      check_ends(id, from, to);
      for (const InstanceId end : {from, to}) check_slot(id, end);
    }
  }

 private:
  PlaceKind kind_of(InstanceId id) const { return plan_.places[plan_.instances[id].place].kind; }

  // The queue is the drives', so that nobody else's has to know of pages.
  void check_ends(TaskId id, InstanceId from, InstanceId to) {
    const Task& task = plan_.tasks[id];
    const bool through_host = kind_of(from) == PlaceKind::host || kind_of(to) == PlaceKind::host;
    const Resource& queue = plan_.resources[task.resource];
    if (through_host && plan_.places[queue.place].kind == PlaceKind::drive) return;
    findings_.report(Rule::reads_find, {0, id}, [&] {
      return "'" + task.name + "' on " + queue.name + " copies " + instance_name(plan_, from) +
             " to " + instance_name(plan_, to) +
             "; drives copy to and from the host alone, on queues of their own";
    });
  }

  void check_slot(TaskId id, InstanceId slot) {
    const Instance& instance = plan_.instances[slot];
    const auto page = [&](Bytes at) {
      return std::to_string(at.count / kDrivePage.count * kDrivePage.count);
    };
    if (instance.offset.count % kDrivePage.count != 0) {
      findings_.report(Rule::slots_ordered, {0, id}, [&] {
        return "'" + plan_.tasks[id].name + "' moves whole pages of " +
               std::to_string(kDrivePage.count) + " bytes, but " + instance_name(plan_, slot) +
               " begins at " + std::to_string(instance.offset.count) + ", within the page at " +
               page(instance.offset);
      });
    }
    const Bytes end = instance.offset + plan_.values[instance.value].bytes;
    const std::vector<Start>& starts = starts_at(instance.place);
    const auto next = std::ranges::lower_bound(starts, end, {}, &Start::offset);
    if (next == starts.end() || next->offset >= round_up(end, kDrivePage)) return;
    findings_.report(Rule::slots_ordered, {0, id}, [&] {
      return "'" + plan_.tasks[id].name + "' moves whole pages, the last of " +
             instance_name(plan_, slot) + " from " + page(end) + " on, in which " +
             instance_name(plan_, next->instance) + " begins";
    });
  }

  struct Start {
    Bytes offset;
    InstanceId instance;
  };

  // Where the place's slots begin, in ascending order.
  const std::vector<Start>& starts_at(PlaceId place) {
    if (starts_.empty()) {
      starts_.resize(plan_.places.size());
      for (const InstanceId id : plan_.instances.ids()) {
        starts_[plan_.instances[id].place].push_back({plan_.instances[id].offset, id});
      }
      for (auto& starts : starts_) std::ranges::stable_sort(starts, {}, &Start::offset);
    }
    return starts_[place];
  }

  const Plan& plan_;
  Findings& findings_;
  IdVector<PlaceId, std::vector<Start>> starts_;  // once a drive's copy was met
};

}  // namespace

void check_drive_copies(const Plan& plan, Findings& findings) { PageRules(plan, findings).check(); }

}  // namespace ferry
