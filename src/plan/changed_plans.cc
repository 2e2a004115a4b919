#include "plan/changed_plans.h"

#include <algorithm>
#include <filesystem>

#include "base/check.h"

namespace ferry {

Plan smallest_plan() {
  return read_plan(std::filesystem::path(FERRY_SOURCE_DIR) / "src/plan/testdata/smallest.plan");
}

SampleShape two_layers_on_two_devices() {
  SampleShape shape;
  shape.layers = 2;
  shape.devices = 2;
  return shape;
}

Task& task_of(Plan& plan, std::string_view name) { return plan.tasks[task_named(plan, name)]; }

InstanceId instance_named(const Plan& plan, std::string_view name) {
  const auto names = instance_names(plan);
  const auto found = std::ranges::find(names, name);
  FERRY_CHECK(found != names.end(), "no instance " + std::string(name));
  return names.id_of(found);
}

Instance& instance_of(Plan& plan, std::string_view name) {
  return plan.instances[instance_named(plan, name)];
}

Plan without_task(Plan plan, std::string_view name) {
  const TaskId gone = task_named(plan, name);
  const auto erased = plan.tasks[gone];
  plan.tasks.erase(plan.tasks.begin() + gone.number());
  for (Task& task : plan.tasks) {
    for (auto* const list : {&task.after, &task.after_previous}) {
      if (erase(*list, gone) > 0) {
        list->insert(list->end(), erased.after.begin(), erased.after.end());
      }
      for (TaskId& id : *list) {
        if (id > gone) --id;
      }
    }
  }
  return plan;
}

}  // namespace ferry
