#include "planner/costs/estimate.h"

#include <gtest/gtest.h>

#include <string>

#include "planner/llama_shape.h"
#include "planner/sample_questions.h"

namespace ferry {
namespace {

/// The estimate of a Llama 8B's MLP in bf16.
BlockProfile estimated_mlp(std::int64_t tokens) {
  const ModelSpec model = model_of({"8b", 4096, 1, 32, 8, 14336, 128256});
  const Profile profile =
      estimate_profile(model, sample_machine({}), Precision::bf16, {.batch = 1, .time = tokens});
  return *find_block(profile, similarity_key(model, model.blocks[2]));
}

TEST(Estimate, AnMlpsWorkspaceIsThatOfOneChunk) {
  const BlockProfile one = estimated_mlp(4096), two = estimated_mlp(8192),
                     eight = estimated_mlp(32768);
  EXPECT_EQ(two.forward_workspace, one.forward_workspace);
  EXPECT_EQ(two.saving_workspace, one.saving_workspace);
  EXPECT_EQ(two.backward_workspace, one.backward_workspace);
  EXPECT_EQ(eight.saved, one.saved * 8);
  EXPECT_GE(eight.backward.count, one.backward.count * 8);
  // What model/ takes for a chunk of 5462 tokens: docs/devices.md.
  EXPECT_GE(eight.backward_workspace, Bytes{1'258'430'464});
  EXPECT_GE(eight.forward_workspace, Bytes{514'564'096});
}

}  // namespace
}  // namespace ferry
