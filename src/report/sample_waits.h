// A small plan whose device waits for all that one can wait for, and spans of its tasks, for tests.
#pragma once

#include <algorithm>
#include <string_view>

#include "exec/timeline.h"
#include "plan/plan.h"

namespace ferry {

/// W.0 is read from the drive, copied up and computed with by `second`; `third` needs the token.
/// Another device computes `aside` and waits for nothing.
inline Plan sample_waits() {
  return parse_plan(R"(ferry-plan 1
strategy test
step train micro_batches=1 micro_batch_size=1 sequence=1 precision=fp32 timing_only
block 0 kind=mlp stage=0
place host kind=host budget=0 workspace=0
place ssd0 kind=drive budget=0 workspace=0
place gpu0 kind=device budget=0 workspace=0
place gpu1 kind=device budget=0 workspace=0
resource read kind=copy place=ssd0 rate=1e9
resource up kind=copy place=gpu0 rate=1e9
resource compute kind=compute place=gpu0
resource load kind=host place=host
resource beside kind=compute place=gpu1
task first kind=work on=compute micros=1
task read kind=copy on=read bytes=1
task up kind=copy on=up bytes=1 after=read
task second kind=work on=compute micros=1 after=up
task load kind=work on=load micros=1
task third kind=work on=compute micros=1 after=load
task aside kind=work on=beside micros=1
)",
                    "sample");
}

/// Requires: the plan has a task of that name.
inline Span sample_span(const Plan& plan, std::string_view name, int step, double start,
                        double end) {
  const auto task = std::ranges::find(plan.tasks, name, &Task::name);
  return {{step, plan.tasks.id_of(task)}, Micros{start}, Micros{end}};
}

}  // namespace ferry
