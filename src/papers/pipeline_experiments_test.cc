#include "papers/pipeline_experiments.h"

#include <gtest/gtest.h>

namespace ferry {
namespace {

TEST(PipelineExperiments, ClosedFormsAreExact) {
  const auto rows = pipeline_experiments();
  EXPECT_EQ(rows.size(), 9U);
  for (const PaperRow& row : rows) {
    EXPECT_TRUE(row.holds()) << row.what << ": " << row.ours << ", published " << row.published;
    EXPECT_LE(row.allowed, 1e-12);
  }
}

TEST(RoundPipeExperiments, PrintedTablesHaveNoErrorBeyondTheirDigits) {
  int promised = 0;
  for (const PaperRow& row : roundpipe_experiments()) {
    EXPECT_TRUE(row.holds()) << row.what << ": " << row.ours << ", published " << row.published;
    promised += row.scored() ? 1 : 0;
  }
  EXPECT_EQ(promised, 12 + 10 + 12 + 8);
}

}  // namespace
}  // namespace ferry
