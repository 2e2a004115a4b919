#include "train/divergence.h"

#include <gtest/gtest.h>

#include "data/scratch_folder.h"
#include "data/token_text.h"

namespace ferry {
namespace {

/// What is said of the rows of a step of `micro_batches` with two rows each, in the order of the
/// file, which has `rows`.
std::string said(int rows, int micro_batches, const Diverged& error) {
  std::string text;
  for (int i = 0; i < rows; ++i) text += "1 *2 *3\n";
  const ScratchFolder folder;
  const TokenFile file(folder.put("data.tokens", token_file_bytes(text, 8, 7)));
  Batches batches(file, {.sequence = 4, .micro_batches = micro_batches, .micro_batch_size = 2});
  return rows_text(batches, error);
}

TEST(Divergence, RowsAreThoseOfTheMicroBatchesWhoseLossIsNotFinite) {
  EXPECT_EQ(said(12, 3, Diverged("", 0, {1})), "rows whose loss is not finite: 3, 4");
  EXPECT_EQ(said(12, 3, Diverged("", 1, {0, 2})), "rows whose loss is not finite: 7, 8, 11, 12");
  EXPECT_EQ(said(12, 3, Diverged("", 2, {1})), "rows whose loss is not finite: 3, 4");
}

TEST(Divergence, AllRowsOfTheStepAreNamedWhereEveryLossIsFinite) {
  EXPECT_EQ(said(12, 3, Diverged("", 0)), "rows of the step: 1, 2, 3, 4, 5, 6");
}

TEST(Divergence, OfManyRowsTheFirstAreNamedAndTheOthersCounted) {
  const std::string text = said(80, 40, Diverged("", 0));
  EXPECT_TRUE(text.ends_with(" 31, 32 and 48 more")) << text;
}

}  // namespace
}  // namespace ferry
