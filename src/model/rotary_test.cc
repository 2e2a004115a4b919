#include "model/rotary.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/testing.h"

namespace ferry {
namespace {

TEST(Rotary, ScoresDependOnTheDistanceOnly) {
  const ModelSpec model = small_model("llama");
  const RotaryTable table = rotary_table(model, 32, at::kFloat);
  // The same query and key at every position.
  const at::Tensor q = at::randn({1, 1, 1, 8}).expand({1, 32, 1, 8});
  const at::Tensor k = at::randn({1, 1, 1, 8}).expand({1, 32, 1, 8});
  const at::Tensor turned_q = rotate(q, table), turned_k = rotate(k, table);
  const auto score = [&](std::int64_t a, std::int64_t b) {
    return (turned_q[0][a] * turned_k[0][b]).sum().item<double>();
  };

  EXPECT_NEAR(score(5, 2), score(30, 27), 1e-5);
  EXPECT_GT(std::abs(score(5, 2) - score(5, 4)), 1e-3);
}

TEST(Rotary, PositionsCountFromTheStartOfADocument) {
  const ModelSpec model = small_model("llama");
  const RotaryTable whole = rotary_table(model, 8, at::kFloat);
  const RotaryTable packed = rotary_rows(model, 8, {.documents = {3, 5}}, at::kFloat);

  EXPECT_TRUE(packed.cosine.narrow(0, 0, 3).equal(whole.cosine.narrow(0, 0, 3)));
  EXPECT_TRUE(packed.sine.narrow(0, 3, 5).equal(whole.sine.narrow(0, 0, 5)));
}

// The table of a run serves rows and documents of all lengths up to its own, bit for bit.
TEST(Rotary, RowsOfALongTableAreThoseOfShortOnes) {
  const ModelSpec model = small_model("llama");
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const RotaryTable run = rotary_table(model, 32, type);
    for (const std::int64_t time : {1, 7, 16, 31, 32, 40}) {
      for (const std::vector<std::int64_t>& documents :
           {std::vector<std::int64_t>{}, {time}, {5, time, 1}}) {
        const RotaryTable own = rotary_rows(model, time, {documents, {}}, type);
        const RotaryTable shared = rotary_rows(model, time, {documents, run}, type);
        EXPECT_EQ(shared.cosine.size(0), documents.size() > 1 ? time + 6 : time);
        EXPECT_EQ(shared.cosine.scalar_type(), type);
        EXPECT_TRUE(shared.cosine.equal(own.cosine)) << time;
        EXPECT_TRUE(shared.sine.equal(own.sine)) << time;
      }
    }
  }
}

// Frequencies 1, 0.1, 0.01, 0.001; wavelengths 6, 63, 628, 6283. Waves longer than 640 are divided
// by eight, those shorter than 160 kept, and 628 lies between.
TEST(Rotary, Llama3StretchesLongWavesOnly) {
  ModelSpec model = small_model("llama");
  model.rope = {.theta = 1e4,
                .scaling = Rope::Scaling::llama3,
                .factor = 8,
                .low_frequency_factor = 1,
                .high_frequency_factor = 4,
                .original_positions = 640};
  const at::Tensor sine = rotary_table(model, 2, at::kFloat).sine[1][0];
  const double kept = (640.0 / 628.3185 - 1) / 3;
  const std::vector<double> expected{1, 0.1, (1 - kept) * 0.01 / 8 + kept * 0.01, 0.001 / 8};

  for (std::int64_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(std::asin(sine[i].item<double>()), std::asin(std::sin(expected[i])), 1e-7);
  }
}

}  // namespace
}  // namespace ferry
