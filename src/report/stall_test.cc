#include "report/stall.h"

#include <gtest/gtest.h>

#include "report/sample_waits.h"

namespace ferry {
namespace {

TEST(StallCauses, AWaitIsFollowedBackToTheQueuesOwnLastTask) {
  const Plan chain = sample_waits();
  const ResourceId compute(2);
  Timeline timeline;
  timeline.spans = {sample_span(chain, "first", 0, 0, 10), sample_span(chain, "read", 0, 2, 30),
                    sample_span(chain, "up", 0, 31, 36),   sample_span(chain, "second", 0, 37, 40),
                    sample_span(chain, "load", 0, 0, 44),  sample_span(chain, "third", 0, 44, 50),
                    sample_span(chain, "first", 1, 52, 60)};

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
  const Plan chain = sample_waits();
  Timeline timeline;
  timeline.spans = {sample_span(chain, "first", 0, 0, 10), sample_span(chain, "second", 0, 37, 40)};
  EXPECT_DOUBLE_EQ(stall_causes(chain, timeline, ResourceId(2), 0).other.count, 27);
}

}  // namespace
}  // namespace ferry
