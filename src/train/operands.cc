#include "train/operands.h"

namespace ferry {
namespace {

void place_read(const Plan& plan, const Task& task, InstanceId id, Operands& parts) {
  const Value& value = plan.values[plan.instances[id].value];
  const bool own = value.block == task.block;
  switch (value.kind) {
    case ValueKind::weight:
      (own ? parts.weight : parts.tied_weight) = id;
      break;
    case ValueKind::state:
      parts.state = id;
      break;
    case ValueKind::gradient:
      (own ? parts.gradient : parts.tied_gradient) = id;
      parts.accumulates = parts.accumulates || own;
      break;
    case ValueKind::tokens:
      parts.tokens = id;
      break;
    case ValueKind::activation:
      parts.input = id;
      break;
    case ValueKind::activation_gradient:
      parts.output_gradient = id;
      break;
    case ValueKind::clip:
      parts.clip = id;
      break;
    case ValueKind::saved:
      parts.saved = id;
      break;
    case ValueKind::norm:
    case ValueKind::loss:
      break;  // read by `clip`, which reads them all
  }
}

void place_write(const Plan& plan, InstanceId id, Operands& parts) {
  const Value& value = plan.values[plan.instances[id].value];
  switch (value.kind) {
    case ValueKind::weight:
      parts.weight = id;
      break;
    case ValueKind::state:
      parts.state = id;
      break;
    case ValueKind::gradient:
      parts.gradient = id;
      break;
    case ValueKind::tokens:
      parts.tokens = id;
      break;
    case ValueKind::activation:
      parts.output = id;
      break;
    case ValueKind::activation_gradient:
      parts.input_gradient = id;
      break;
    case ValueKind::norm:
      parts.norm = id;
      break;
    case ValueKind::loss:
      parts.loss = id;
      break;
    case ValueKind::clip:
      parts.clip = id;
      break;
    case ValueKind::saved:
      parts.saved = id;
      break;
  }
}

}  // namespace

Operands operands_of(const Plan& plan, const Task& task) {
  Operands parts;
  for (const InstanceId id : task.reads) place_read(plan, task, id, parts);
  for (const InstanceId id : task.writes) place_write(plan, id, parts);
  return parts;
}

IdVector<TaskId, Operands> operands_of(const Plan& plan) {
  IdVector<TaskId, Operands> all;
  all.reserve(plan.tasks.size());
  for (const Task& task : plan.tasks) all.push_back(operands_of(plan, task));
  return all;
}

}  // namespace ferry
