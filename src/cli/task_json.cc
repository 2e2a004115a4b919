#include "cli/task_json.h"

#include <utility>

#include "plan/words.h"

namespace ferry {

nlohmann::ordered_json tasks_json(const Plan& plan, const Timeline& timeline) {
  nlohmann::ordered_json tasks = nlohmann::ordered_json::array();
  for (const Span& span : timeline.spans) {
    const Task& task = plan.tasks[span.run.task];
    nlohmann::ordered_json row{{"step", span.run.step},
                               {"task", task.name},
                               {"kind", to_string(task.kind)},
                               {"resource", plan.resources[task.resource].name}};
    if (task.block.valid()) {
      row["block"] = task.block.number();
      row["stage"] = plan.blocks[task.block].stage;
    }
    if (task.micro_batch >= 0) row["micro_batch"] = task.micro_batch;
    row["start"] = span.start.seconds();
    row["end"] = span.end.seconds();
    tasks.push_back(std::move(row));
  }
  return tasks;
}

}  // namespace ferry
