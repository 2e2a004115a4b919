#include "train/operands.h"

#include <algorithm>

#include "base/check.h"

namespace ferry {
namespace {

void take_parts(const Plan& plan, const FewIds<InstanceId>& instances,
                const std::vector<Access>& known, Operands& parts) {
  for (const InstanceId id : instances) {
    const ValueKey key = key_of(plan.values[plan.instances[id].value]);
    const auto found = std::ranges::find(known, key, &Access::value);
    FERRY_CHECK(found != known.end(), "a task reads and writes what its signature says");
    parts.instances[to_index(found->part)] = id;
  }
}

}  // namespace

IdVector<TaskId, Operands> operands_of(const Plan& plan) {
  const TaskSignatures signatures(plan);
  TaskSignature signature;
  IdVector<TaskId, Operands> all;
  all.reserve(plan.tasks.size());
  for (const Task& task : plan.tasks) {
    Operands& parts = all.emplace_back();
    if (task.kind == TaskKind::copy) continue;
    signatures.fill(task, signature);
    take_parts(plan, task.reads, signature.reads, parts);
    parts.accumulates = parts[Part::gradient].valid();
    take_parts(plan, task.writes, signature.writes, parts);
  }
  return all;
}

}  // namespace ferry
