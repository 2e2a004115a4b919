#include "spec/row_chunks.h"

#include <gtest/gtest.h>

namespace ferry {
namespace {

TEST(RowChunks, CoverAllTokensInOrder) {
  EXPECT_EQ(row_chunks(8, 3), (std::vector<RowChunk>{{0, 3}, {3, 3}, {6, 2}}));
  EXPECT_EQ(row_chunks(8, 8), (std::vector<RowChunk>{{0, 8}}));
}

TEST(HeadChunk, LogitsStayBesideTheGradientSum) {
  ModelSpec model;
  model.vocab = 128256;
  model.hidden = 4096;
  EXPECT_EQ(head_chunk_rows(model, {.batch = 1, .time = 8192}), 1024);  // hidden / 4
  EXPECT_EQ(head_chunk_rows(model, {.batch = 1, .time = 1500}), 750);   // two equal chunks
  EXPECT_EQ(head_chunk_rows(model, {.batch = 2, .time = 8}), 16);       // all there is

  model.vocab = 8192;
  model.hidden = 256;
  EXPECT_EQ(head_chunk_rows(model, {.batch = 2, .time = 256}), 128);  // 4 MiB of logits

  model.hidden = 64;
  model.vocab = 200000;
  EXPECT_EQ(head_chunk_rows(model, {.batch = 1, .time = 256}), 32);  // the least
}

TEST(MlpChunk, ProjectionsStayBesideTheGradientSum) {
  ModelSpec model;
  model.hidden = 4096;
  model.intermediate = 14336;
  EXPECT_EQ(mlp_chunk_rows(model, {.batch = 1, .time = 6144}), 6144);  // 1.5 hidden
  EXPECT_EQ(mlp_chunk_rows(model, {.batch = 1, .time = 6145}), 3073);  // two nearly equal chunks
  EXPECT_EQ(mlp_chunk_rows(model, {.batch = 4, .time = 8192}), 5462);  // of six
  EXPECT_EQ(mlp_chunk_rows(model, {.batch = 2, .time = 8}), 16);       // all there is
  model.gated_mlp = false;
  EXPECT_EQ(mlp_chunk_rows(model, {.batch = 4, .time = 8192}), 8192);  // 2 hidden
}

TEST(MlpChunk, SmallModelsTakeThousandsOfTokensAtATime) {
  ModelSpec model;
  model.hidden = 512;
  EXPECT_EQ(mlp_chunk_rows(model, {.batch = 16, .time = 256}), 4096);
  EXPECT_EQ(mlp_chunk_rows(model, {.batch = 17, .time = 256}), 2176);
}

}  // namespace
}  // namespace ferry
