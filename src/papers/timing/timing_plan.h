// Writes plans that only tell time: a paper's program, or any schedule, as tasks with durations on
// in-order queues (Plan::timing_only). The simulator runs them like any other plan.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "plan/plan.h"

namespace ferry {

class TimingPlan {
 public:
  /// `blocks` blocks, all of stage 0 until set_stage(), and the place "host".
  TimingPlan(const std::string& strategy, int micro_batches, int blocks);

  /// Stages count up along the chain without gaps.
  void set_stage(int block, int stage);

  PlaceId place(const std::string& name, PlaceKind kind);
  PlaceId host() const { return 0; }
  PoolId pool(const std::string& name, double capacity);

  /// Queues. A compute queue is at a device, a worker at the host, a link anywhere. What runs on
  /// it takes `draws` from pools at full speed.
  ResourceId compute(const std::string& name, PlaceId place, std::vector<Draw> draws = {});
  ResourceId worker(const std::string& name, std::vector<Draw> draws = {});
  ResourceId link(const std::string& name, PlaceId place, double bytes_per_second,
                  std::vector<Draw> draws = {}, Micros latency = {});

  /// Appends a task that takes `micros` to its queue. `kind` is none but copy. Names are unique.
  TaskId add(TaskKind kind, const std::string& name, ResourceId queue, Micros micros,
             const std::vector<TaskId>& after = {});

  /// Appends a copy of `bytes` to a link; takes latency + bytes / rate.
  TaskId copy(const std::string& name, ResourceId link, Bytes bytes,
              const std::vector<TaskId>& after = {});

  /// What a task is about, for tables and pictures.
  void about(TaskId task, int block, int micro_batch);

  void wait_for(TaskId task, TaskId earlier);
  /// `earlier` of the step before.
  void wait_for_previous(TaskId task, TaskId earlier);

  const Plan& plan() const { return plan_; }

  /// Hands the plan over; verify() finds nothing in it unless tasks wait for each other.
  Plan finish();

 private:
  ResourceId add_resource(Resource resource);

  Plan plan_;
};

}  // namespace ferry
