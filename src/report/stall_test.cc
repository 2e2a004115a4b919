#include "report/stall.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace ferry {
namespace {

/// W.0 is read from the drive, copied up and computed with; the next block needs the token.
Plan plan() {
  return parse_plan(R"(ferry-plan 1
strategy test
step train micro_batches=1 micro_batch_size=1 sequence=1 precision=fp32 timing_only
block 0 kind=mlp stage=0
place host kind=host budget=0 workspace=0
place ssd0 kind=drive budget=0 workspace=0
place gpu0 kind=device budget=0 workspace=0
resource read kind=copy place=ssd0 rate=1e9
resource up kind=copy place=gpu0 rate=1e9
resource compute kind=compute place=gpu0
resource load kind=host place=host
task first kind=work on=compute micros=1
task read kind=copy on=read bytes=1
task up kind=copy on=up bytes=1 after=read
task second kind=work on=compute micros=1 after=up
task load kind=work on=load micros=1
task third kind=work on=compute micros=1 after=load
)",
                    "test");
}

Span span(const Plan& plan, const char* name, int step, double start, double end) {
  const auto task = std::ranges::find(plan.tasks, std::string(name), &Task::name);
  return {{step, plan.tasks.id_of(task)}, Micros{start}, Micros{end}};
}

TEST(StallCauses, AWaitIsFollowedBackToTheQueuesOwnLastTask) {
  const Plan chain = plan();
  const ResourceId compute(2);
  Timeline timeline;
  timeline.spans = {span(chain, "first", 0, 0, 10), span(chain, "read", 0, 2, 30),
                    span(chain, "up", 0, 31, 36),   span(chain, "second", 0, 37, 40),
                    span(chain, "load", 0, 0, 44),  span(chain, "third", 0, 44, 50),
                    span(chain, "first", 1, 52, 60)};

  const StallCauses found = stall_causes(chain, timeline, compute, 0);
  EXPECT_DOUBLE_EQ(found.drives.count, 20);  // from 10, when first ended, to 30
  EXPECT_DOUBLE_EQ(found.copies.count, 5);
  EXPECT_DOUBLE_EQ(found.other.count, 2);  // between read and up, and up and second
  EXPECT_DOUBLE_EQ(found.host.count, 4);
  EXPECT_DOUBLE_EQ(found.devices.count, 0);
  EXPECT_DOUBLE_EQ(found.total().count, 31);

  const StallCauses next = stall_causes(chain, timeline, compute, 1);
  EXPECT_DOUBLE_EQ(next.other.count, 2);  // behind the step before
  EXPECT_DOUBLE_EQ(next.total().count, 2);
}

TEST(StallCauses, WhatIsNotInTheTimelineIsNoCause) {
  const Plan chain = plan();
  Timeline timeline;
  timeline.spans = {span(chain, "first", 0, 0, 10), span(chain, "second", 0, 37, 40)};
  EXPECT_DOUBLE_EQ(stall_causes(chain, timeline, ResourceId(2), 0).other.count, 27);
}

}  // namespace
}  // namespace ferry
