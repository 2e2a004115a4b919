#include "data/batches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <sstream>

#include "data/scratch_folder.h"
#include "data/token_text.h"

namespace ferry {
namespace {

using Longs = std::vector<std::int64_t>;

TokenFile open_text(const ScratchFolder& folder, const std::string& text) {
  return TokenFile(folder.put("x.tokens", token_file_bytes(text, 100, 0)));
}

TEST(Batches, LabelsAreTheNextLearnedTokenAndPaddingTeachesNothing) {
  const ScratchFolder folder;
  const TokenFile file = open_text(folder, "5 6 *7 *0\n");
  Batches batches(file, {.sequence = 6});
  const Batch batch = batches.batch(0, 0);
  EXPECT_EQ(batch.ids, (Longs{5, 6, 7, 0, 0, 0}));
  EXPECT_EQ(batch.labels, (Longs{-100, 7, 0, -100, -100, -100}));
  EXPECT_EQ(batch.learned, 2);
  EXPECT_EQ(batch.tokens, 4);
  EXPECT_TRUE(batch.documents.empty());
}

TEST(Batches, TheFirstTokenIsNeverPredicted) {
  const ScratchFolder folder;
  const TokenFile file = open_text(folder, "*5 *6 *0\n");
  Batches batches(file, {.sequence = 3});
  EXPECT_EQ(batches.batch(0, 0).labels, (Longs{6, 0, -100}));
  EXPECT_EQ(batches.learned_in_step(0), 2);
}

TEST(Batches, ALongSampleIsCutAtTheSequenceAndItsLastPositionHasNoLabel) {
  const ScratchFolder folder;
  const TokenFile file = open_text(folder, "*1 *2 *3 *4 *5\n*1 *2 *3\n");
  Batches batches(file, {.sequence = 3, .micro_batch_size = 2});
  const Batch batch = batches.batch(0, 0);
  EXPECT_EQ(batch.ids, (Longs{1, 2, 3, 1, 2, 3}));
  EXPECT_EQ(batch.labels, (Longs{2, 3, -100, 2, 3, -100}));
  EXPECT_EQ(batches.cut_samples(), 1);
  EXPECT_EQ(batches.epoch_tokens(), 6);
}

TEST(Batches, SequencesComeInFileOrderAndWrapAtTheEnd) {
  const ScratchFolder folder;
  const TokenFile file = open_text(folder, "1 *1\n2 *2\n3 *3\n4 *4\n5 *5\n");
  Batches batches(file, {.sequence = 2, .micro_batches = 2, .micro_batch_size = 2});
  EXPECT_EQ(batches.batch(0, 0).ids, (Longs{1, 1, 2, 2}));
  EXPECT_EQ(batches.batch(0, 1).ids, (Longs{3, 3, 4, 4}));
  EXPECT_EQ(batches.batch(1, 0).ids, (Longs{5, 5, 1, 1}));
  EXPECT_EQ(batches.batch(1, 1).ids, (Longs{2, 2, 3, 3}));
}

TEST(Batches, ARunGoesOnWhereTheDataStoodWithOtherBatchesToo) {
  const ScratchFolder folder;
  const TokenFile file = open_text(folder, "1 *1\n2 *2\n3 *3\n4 *4\n5 *5\n");
  const Batches before(file, {.sequence = 2, .micro_batches = 1, .micro_batch_size = 1});
  EXPECT_EQ(before.first_sequence(3), 3);
  Batches batches(file, {.sequence = 2, .micro_batches = 2, .micro_batch_size = 2});
  batches.go_on(3, before.first_sequence(3));
  EXPECT_EQ(batches.batch(3, 0).ids, (Longs{4, 4, 5, 5}));
  EXPECT_EQ(batches.samples(3, 1), (Longs{0, 1}));
  EXPECT_EQ(batches.samples(4, 0), (Longs{2, 3}));
  EXPECT_EQ(batches.learned_in_step(4), 4);
  EXPECT_EQ(batches.first_sequence(5), 11);
}

TEST(Batches, TheSamplesOfAMicroBatchAreToldByTheirNumber) {
  const ScratchFolder folder;
  const TokenFile file = open_text(folder, "1 *1\n2 *2\n3 *3\n4 *4\n5 *5\n");
  Batches plain(file, {.sequence = 2, .micro_batches = 2, .micro_batch_size = 2});
  EXPECT_EQ(plain.samples(0, 1), (Longs{2, 3}));
  EXPECT_EQ(plain.samples(1, 0), (Longs{4, 0}));
  Batches packed(file, {.sequence = 4, .micro_batch_size = 2, .packing = true});
  EXPECT_EQ(packed.samples(0, 0), (Longs{0, 1, 2, 3}));
}

TEST(Batches, ShufflingVisitsEveryRowOncePerEpochInOtherOrders) {
  const ScratchFolder folder;
  std::string text;
  for (int i = 1; i <= 20; ++i) text += std::to_string(i) + " *0\n";
  const TokenFile file = open_text(folder, text);
  Batches batches(file, {.sequence = 2, .micro_batch_size = 4, .shuffle = true, .seed = 7});
  std::vector<Longs> epochs;
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    Longs seen;
    for (std::int64_t step = 5 * epoch; step < 5 * epoch + 5; ++step) {
      const Batch batch = batches.batch(step, 0);
      for (std::size_t j = 0; j < 4; ++j) seen.push_back(batch.ids[2 * j]);
    }
    epochs.push_back(seen);
    EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), 20u);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_FALSE(std::ranges::is_sorted(epochs[0]));
  // Any step can be asked for at any time: a resumed run sees what the unbroken one saw.
  EXPECT_EQ(batches.batch(0, 0).ids[0], epochs[0][0]);
}

// The same numbers stand in docs/formats/data.md and in the Python tests.
TEST(Batches, TheEpochOrderIsTheDocumentedOne) {
  EXPECT_EQ(epoch_order(8, 1, 0), (std::vector<std::int32_t>{1, 3, 5, 2, 0, 6, 7, 4}));
  EXPECT_EQ(epoch_order(8, 1, 1), (std::vector<std::int32_t>{0, 7, 6, 3, 2, 4, 1, 5}));
  EXPECT_TRUE(epoch_order(0, 1, 0).empty());
}

TEST(Batches, PackingFillsRowsWithWholeSamplesAndRestartsPositions) {
  const ScratchFolder folder;
  const TokenFile file = open_text(folder, "1 *2\n3 *4 *5\n6 *7\n*1 *2 *3 *4 *5 *6 *7\n");
  Batches batches(file, {.sequence = 6, .micro_batch_size = 3, .packing = true});
  ASSERT_EQ(batches.rows(), 3);
  const Batch batch = batches.batch(0, 0);
  EXPECT_EQ(batch.ids, (Longs{1, 2, 3, 4, 5, 0, 6, 7, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(batch.labels, (Longs{2, -100, 4, 5, -100, -100, 7, -100, -100, -100, -100, -100, 2, 3,
                                 4, 5, 6, -100}));
  EXPECT_EQ(batch.documents, (Longs{2, 3 + 1, 2 + 4, 6}));
  EXPECT_EQ(batch.positions, (Longs{0, 1, 0, 1, 2, 0, 0, 1, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(batch.tokens, 13);
  EXPECT_EQ(batches.consecutive(2, 2).documents, (Longs{6, 6})) << "a row of padding is one";
}

TEST(Batches, TheStepsCountOfLearnedTokensIsTheSumOfItsMicroBatches) {
  const unsigned seed = 20260101;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const ScratchFolder folder;
  std::ostringstream text;
  for (int i = 0; i < 37; ++i) {
    for (auto n = 1 + random() % 12; n > 0; --n) {
      text << (random() % 2 == 0 ? "*" : "") << random() % 100 << ' ';
    }
    text << '\n';
  }
  const TokenFile file = open_text(folder, text.str());
  for (const bool packing : {false, true}) {
    for (const bool shuffle : {false, true}) {
      Batches batches(file, {.sequence = 7,
                             .micro_batches = 3,
                             .micro_batch_size = 2,
                             .shuffle = shuffle,
                             .packing = packing,
                             .seed = 5});
      for (std::int64_t step = 0; step < 20; ++step) {
        std::int64_t learned = 0;
        for (std::int64_t i = 0; i < 3; ++i) {
          const Batch batch = batches.batch(step, i);
          ASSERT_EQ(batch.ids.size(), 14u);
          ASSERT_EQ(batch.labels.size(), 14u);
          EXPECT_EQ(std::ranges::count_if(batch.labels, [](auto l) { return l != -100; }),
                    batch.learned);
          learned += batch.learned;
        }
        EXPECT_EQ(batches.learned_in_step(step), learned) << step;
      }
    }
  }
}

TEST(Batches, EvaluationSeesEachRowOnceAndPadsTheLastBatch) {
  const ScratchFolder folder;
  const TokenFile file = open_text(folder, "1 *1\n2 *2\n3 *3\n");
  const Batches batches(file, {.sequence = 2, .micro_batch_size = 2});
  const Batch last = batches.consecutive(2, 2);
  EXPECT_EQ(last.ids, (Longs{3, 3, 0, 0}));
  EXPECT_EQ(last.labels, (Longs{3, -100, -100, -100}));
  EXPECT_EQ(last.learned, 1);
}

TEST(Batches, ARangeOfSamplesIsADataSetOfItsOwn) {
  const ScratchFolder folder;
  const TokenFile file = open_text(folder, "1 *1\n2 *2\n3 *3\n4 *4\n");
  Batches head(file, {.sequence = 2, .micro_batch_size = 3, .samples = 2});
  EXPECT_EQ(head.rows(), 2);
  EXPECT_EQ(head.batch(0, 0).ids, (Longs{1, 1, 2, 2, 1, 1}));
  const Batches tail(file, {.sequence = 2, .first_sample = 2});
  EXPECT_EQ(tail.consecutive(0, 3).ids, (Longs{3, 3, 4, 4, 0, 0}));
}

TEST(Batches, DataWithNothingToLearnIsRefused) {
  const ScratchFolder folder;
  const TokenFile file = open_text(folder, "*1 2 3 *4\n");
  EXPECT_EQ(Batches(file, {.sequence = 4}).rows(), 1);
  EXPECT_NE(user_error([&] { Batches(file, {.sequence = 3}); }).find("nothing to learn"),
            std::string::npos);
}

}  // namespace
}  // namespace ferry
