#include "plan/verify.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "base/error.h"
#include "plan/drive_copies.h"
#include "plan/findings.h"
#include "plan/order.h"
#include "plan/replay.h"
#include "plan/task_signature.h"
#include "plan/well_formed.h"
#include "plan/words.h"

namespace ferry {
namespace {

std::string quoted(const std::string& name) { return "'" + name + "'"; }

Violation cycle_violation(const Plan& plan, const std::vector<TaskId>& cycle) {
  constexpr std::size_t kShown = 8;
  std::string message = "tasks wait for each other: ";
  for (std::size_t i = 0; i < std::min(cycle.size(), kShown); ++i) {
    message += quoted(plan.tasks[cycle[i]].name) + " before ";
  }
  if (cycle.size() > kShown) {
    message += std::to_string(cycle.size() - kShown) + " more before ";
  }
  message += quoted(plan.tasks[cycle.front()].name);
  return {Rule::no_cycle, message};
}

// The second half of rule 2: a task uses what lies at its own place.
void check_places(const Plan& plan, Findings& findings) {
  for (const TaskId id : plan.tasks.ids()) {
    const Task& task = plan.tasks[id];
    const PlaceId place = plan.resources[task.resource].place;
    const auto elsewhere = [&](InstanceId instance) {
      return plan.instances[instance].place != place;
    };
    const auto report = [&](InstanceId instance) {
      findings.report(Rule::reads_find, {0, id}, [&] {
        return quoted(task.name) + " runs at " + plan.places[place].name + " but uses " +
               instance_name(plan, instance);
      });
    };
    if (task.kind == TaskKind::copy) {
      if (elsewhere(task.reads.front()) && elsewhere(task.writes.front())) {
        report(task.reads.front());
      } else if (goes_between_devices(plan, task) && elsewhere(task.reads.front())) {
        findings.report(Rule::reads_find, {0, id}, [&] {
          return quoted(task.name) + " on " + plan.resources[task.resource].name + " copies " +
                 instance_name(plan, task.reads.front()) + " to " +
                 instance_name(plan, task.writes.front()) +
                 "; copies between devices are on queues of the device that sends";
        });
      }
      continue;
    }
    for (const auto* instances : {&task.reads, &task.writes}) {
      const auto found = std::find_if(instances->begin(), instances->end(), elsewhere);
      if (found != instances->end()) report(*found);
    }
  }
}

// The third part of rule 2: what is behind K.b.m, which only a queue that made it can go on from.
void check_saved(const Plan& plan, Findings& findings) {
  std::map<ValueId, ResourceId> made_on;
  const auto saved_among = [&](const FewIds<InstanceId>& instances) -> std::optional<ValueId> {
    for (const InstanceId id : instances) {
      const ValueId value = plan.instances[id].value;
      if (plan.values[value].kind == ValueKind::saved) return value;
    }
    return std::nullopt;
  };
  for (const Task& task : plan.tasks) {
    if (task.kind != TaskKind::forward) continue;
    if (const auto value = saved_among(task.writes)) made_on[*value] = task.resource;
  }
  for (const TaskId id : plan.tasks.ids()) {
    const Task& task = plan.tasks[id];
    if (task.kind != TaskKind::backward) continue;
    const auto value = saved_among(task.reads);
    const auto made = value ? made_on.find(*value) : made_on.end();
    if (made == made_on.end() || made->second == task.resource) continue;
    findings.report(Rule::reads_find, {0, id}, [&] {
      const auto queue = [&](ResourceId resource) { return plan.resources[resource].name; };
      return quoted(task.name) + " on " + queue(task.resource) + " reads " +
             value_name(plan.values[*value]) + ", which is made on " + queue(made->second) +
             "; only the queue that made it can go on from it";
    });
  }
}

// Rule 4. Slot ends are within 63 bits in a well-formed plan; sums of workspaces saturate.
std::optional<Violation> check_budgets(const Plan& plan) {
  IdVector<ResourceId, Bytes> largest(plan.resources.size());
  for (const Task& task : plan.tasks) {
    Bytes& most = largest[task.resource];
    most = std::max(most, task.workspace);
  }
  for (const PlaceId p : plan.places.ids()) {
    const Place& place = plan.places[p];
    Bytes left = place.workspace;
    for (const ResourceId r : plan.resources.ids()) {
      if (plan.resources[r].place != p) continue;
      if (largest[r] > left) {
        return Violation{Rule::within_budget,
                         "the tasks of " + quoted(plan.resources[r].name) + " need " +
                             std::to_string(largest[r].count) + " bytes of workspace at " +
                             place.name + ", which has " + std::to_string(left.count) + " of " +
                             std::to_string(place.workspace.count) + " left"};
      }
      left -= largest[r];
    }
    const Bytes end = slots_end(plan, p);
    if (place.workspace > place.budget || end > place.budget - place.workspace) {
      return Violation{Rule::within_budget, place.name + " needs " + std::to_string(end.count) +
                                                " bytes of slots and " +
                                                std::to_string(place.workspace.count) +
                                                " bytes of workspace, but has a budget of " +
                                                std::to_string(place.budget.count) + " bytes"};
    }
  }
  return {};
}

// How often each thing that a step does is in the plan.
class StepCounts {
 public:
  explicit StepCounts(const Plan& plan)
      : plan_(plan),
        loads_(micro_batches()),
        forwards_(plan.blocks.size(), std::vector<int>(micro_batches())),
        backwards_(forwards_),
        updates_(plan.blocks.size()),
        redos_(plan.blocks.size()),
        signatures_(plan) {
    for (const Task& task : plan.tasks) count(task);
  }

  std::optional<Violation> find() const;

 private:
  void count(const Task& task);
  std::size_t micro_batches() const { return plan_.micro_batches; }
  static std::optional<Violation> expect(int expected, int found, const std::string& what) {
    if (found == expected) return {};
    return Violation{Rule::each_once, what + " runs " + std::to_string(found) +
                                          " times per step, not " + std::to_string(expected)};
  }

  const Plan& plan_;
  std::vector<int> loads_;                                    // by micro-batch
  IdVector<BlockId, std::vector<int>> forwards_, backwards_;  // by micro-batch
  IdVector<BlockId, int> updates_;
  IdVector<BlockId, int> redos_;
  int clips_ = 0;
  const TaskSignatures signatures_;
};

void StepCounts::count(const Task& task) {
  switch (task.kind) {
    case TaskKind::load:
      ++loads_[task.micro_batch];
      break;
    case TaskKind::forward:
      ++forwards_[task.block][task.micro_batch];
      break;
    case TaskKind::backward:
      ++backwards_[task.block][task.micro_batch];
      break;
    case TaskKind::update:
      ++updates_[task.block];
      break;
    case TaskKind::redo:
      ++redos_[task.block];
      break;
    case TaskKind::clip:
      ++clips_;
      break;
    case TaskKind::copy:
    case TaskKind::work:
      break;
  }
}

std::optional<Violation> StepCounts::find() const {
  const bool trains = plan_.mode == PlanMode::train;
  for (int m = 0; m < plan_.micro_batches; ++m) {
    if (loads_[m] != 1) return expect(1, loads_[m], "load of micro-batch " + std::to_string(m));
  }
  for (const BlockId b : plan_.blocks.ids()) {
    const int forwards = trains && plan_.blocks[b].fused ? 0 : 1;
    const int backwards = !trains ? 0 : runs_again(plan_, b) ? 2 : 1;
    for (int m = 0; m < plan_.micro_batches; ++m) {
      const auto of_block = [&](const char* what) {
        return what + to_string(b) + " for micro-batch " + std::to_string(m);
      };
      if (forwards_[b][m] != forwards) {
        return expect(forwards, forwards_[b][m], of_block("forward of block "));
      }
      if (backwards_[b][m] != backwards) {
        return expect(backwards, backwards_[b][m], of_block("backward of block "));
      }
    }
    const int updates = trains && plan_.blocks[b].trainable ? signatures_.updates(b) : 0;
    if (updates_[b] != updates) {
      return expect(updates, updates_[b], "update of block " + to_string(b));
    }
    const int redos = signatures_.updates_ahead(b) ? 1 : 0;
    if (redos_[b] != redos) return expect(redos, redos_[b], "redo of block " + to_string(b));
  }
  if (clips_ != 1) return expect(1, clips_, "clip");
  return {};
}

std::optional<Violation> check_counts(const Plan& plan) {
  // Every block needs a task per micro-batch; this also bounds the tables below by the plan's size.
  const std::size_t micro_batches = plan.micro_batches;
  if (plan.tasks.size() / micro_batches < plan.blocks.size()) {
    return Violation{Rule::each_once, std::to_string(plan.tasks.size()) +
                                          " tasks are too few for " +
                                          std::to_string(plan.blocks.size()) + " blocks and " +
                                          std::to_string(plan.micro_batches) + " micro-batches"};
  }
  return StepCounts(plan).find();
}

std::string_view rule_name(Rule rule) {
  constexpr std::array<std::string_view, 7> kNames = {
      "well formed", "no cycle", "reads find their values", "slots are ordered", "within budget",
      "each once",   "staleness"};
  return kNames[to_index(rule)];
}

}  // namespace

std::optional<Violation> verify(const Plan& plan) {
  if (auto malformed = find_malformed(plan)) return Violation{Rule::well_formed, *malformed};
  const StepOrder order = order_step(plan);
  if (!order.cycle.empty()) return cycle_violation(plan, order.cycle);

  if (plan.timing_only) return {};

  Findings findings;
  check_places(plan, findings);
  check_saved(plan, findings);
  check_drive_copies(plan, findings);
  replay(plan, order, findings);
  if (auto violation = findings.of(Rule::reads_find)) return violation;
  if (auto violation = findings.of(Rule::slots_ordered)) return violation;
  if (auto violation = check_budgets(plan)) return violation;
  if (auto violation = check_counts(plan)) return violation;
  if (auto violation = findings.of(Rule::each_once)) return violation;
  return findings.of(Rule::staleness);
}

void require_verified(const Plan& plan, const std::string& origin) {
  const auto violation = verify(plan);
  if (!violation) return;
  throw UserError(origin + ": the plan cannot run, rule " +
                  std::to_string(static_cast<int>(violation->rule)) + " (" +
                  std::string(rule_name(violation->rule)) + "): " + violation->message);
}

}  // namespace ferry
