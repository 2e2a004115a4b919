#include "planner/more_memory.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/side_by_side.h"

namespace ferry {
namespace {

/// The question with more of one kind of memory.
struct Change {
  std::string what;
  Bytes more, then;
  PlanQuestion question;
};

std::string all_of(std::size_t count, const std::string& only, const std::string& each) {
  return count == 1 ? only : each;
}

// Less might end between two rungs of the search (strategies/memory_rungs.h).
Bytes little_more_of_devices(Bytes there) {
  const std::int64_t mib = (1_MiB).count;
  return Bytes{std::max<std::int64_t>(1, there.count / 8 / mib) * mib};
}

Change more_on_devices(const PlanQuestion& question) {
  const auto& devices = question.machine.devices;
  const Bytes least = device_budget(question, least_device(question)).bytes;
  const Bytes more = little_more_of_devices(least);
  Change change{all_of(devices.size(), devices.front().name, "each device"), more, least + more,
                question};
  std::vector<Budget> budgets;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    budgets.push_back(device_budget(question, static_cast<int>(d)));
    budgets.back().bytes += more;
    Bytes& memory = change.question.machine.devices[d].memory;
    memory = std::max(memory, budgets.back().bytes);
  }
  change.question.device_budgets = std::move(budgets);
  return change;
}

Change more_on_host(const PlanQuestion& question) {
  Bytes there = std::min(question.host_budget, question.machine.host.memory);
  if (question.shared) there = std::min(there, question.shared->bytes);
  const Bytes more = little_more(there);
  Change change{question.shared ? "shared memory" : "DRAM", more, there + more, question};
  PlanQuestion& changed = change.question;
  changed.host_budget = std::max(question.host_budget, change.then);
  changed.machine.host.memory = std::max(question.machine.host.memory, change.then);
  if (changed.shared) changed.shared->bytes = std::max(changed.shared->bytes, change.then);
  return change;
}

Change more_on_drives(const PlanQuestion& question) {
  const auto& drives = question.machine.drives;
  const Bytes least = std::ranges::min_element(drives, {}, &Drive::capacity)->capacity;
  const Bytes more = little_more(least);
  Change change{all_of(drives.size(), drives.front().name, "each drive"), more, least + more,
                question};
  for (Drive& drive : change.question.machine.drives) drive.capacity += more;
  return change;
}

std::vector<Change> changes_of(const PlanQuestion& question) {
  std::vector<Change> changes;
  const Bytes least = device_budget(question, least_device(question)).bytes;
  if (!question.shared || least < question.shared->bytes) {
    changes.push_back(more_on_devices(question));
  }
  changes.push_back(more_on_host(question));
  if (!question.machine.drives.empty()) changes.push_back(more_on_drives(question));
  return changes;
}

}  // namespace

Bytes little_more(Bytes there) {
  const std::int64_t sixteenth = there.count / 16;
  if (sixteenth >= (1_GiB).count && there.count / 1000 <= (1_GiB).count) return 1_GiB;
  const std::int64_t unit = (sixteenth < (1_GiB).count ? 1_MiB : 1_GiB).count;
  return Bytes{std::max<std::int64_t>((sixteenth + unit / 2) / unit, 1) * unit};
}

std::vector<MoreMemory> what_more_memory_brings(const PlanQuestion& question, const Planned& now,
                                                const Planner& planner, PhaseListener& listener) {
  const std::vector<Change> changes = changes_of(question);
  const Micros step = now.expected;
  std::vector<MoreMemory> rows;
  for (const Change& change : changes) {
    rows.push_back({change.what, change.more, change.then, now.plan.strategy, step, {}});
  }
  std::vector<NamedWork> works;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    works.push_back({changes[i].what, [&, i] {
                       const PlanAnswer answer = planner(changes[i].question);
                       const auto* planned = std::get_if<Planned>(&answer);
                       if (planned == nullptr || planned->expected >= step) return;
                       rows[i].strategy = planned->plan.strategy;
                       rows[i].step = planned->expected;
                       rows[i].saved = step - rows[i].step;
                     }});
  }
  side_by_side(works, listener, "planning with more memory", "plans");
  return rows;
}

}  // namespace ferry
