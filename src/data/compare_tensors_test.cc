#include "data/compare_tensors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "data/safetensors_writer.h"
#include "data/scratch_folder.h"

namespace ferry {
namespace {

Checkpoint tensors(const std::filesystem::path& folder, const std::vector<float>& large,
                   float scalar) {
  std::filesystem::create_directories(folder);
  SafetensorsWriter writer(
      folder, "model",
      {{"large", ElementType::f32, {std::ssize(large)}}, {"scalar", ElementType::f32, {}}});
  writer.write("large", std::as_bytes(std::span(large)));
  writer.write("scalar", std::as_bytes(std::span(&scalar, 1)));
  writer.commit();
  return open_checkpoint(folder);
}

TEST(CompareTensors, EqualBitsAreEqual) {
  const ScratchFolder scratch;
  const std::vector<float> large(300'000, 0.5f);
  const auto found =
      compare_tensors(tensors(scratch / "a", large, NAN), tensors(scratch / "b", large, NAN));
  ASSERT_EQ(found.size(), 2u);
  for (const TensorDifference& one : found) {
    EXPECT_TRUE(one.same_bits) << one.name;
    EXPECT_EQ(one.largest, 0) << one.name;
  }
}

TEST(CompareTensors, TheLargestDifferenceOfATensorIsFoundInEveryPiece) {
  const ScratchFolder scratch;
  std::vector<float> large(300'000, 0.5f);
  const Checkpoint before = tensors(scratch / "a", large, 0.0f);
  large[7] = 0.75f;
  large[299'999] = 0.0f;
  const auto found = compare_tensors(before, tensors(scratch / "b", large, -0.0f));
  EXPECT_EQ(found[0].name, "large");
  EXPECT_FALSE(found[0].same_bits);
  EXPECT_EQ(found[0].largest, 0.5);
  EXPECT_FALSE(found[1].same_bits);  // the sign of a zero
  EXPECT_EQ(found[1].largest, 0);
}

TEST(CompareTensors, WhatIsNotFiniteOnOneSideIsInfinitelyFar) {
  const ScratchFolder scratch;
  const auto found =
      compare_tensors(tensors(scratch / "a", {1.0f}, 1.0f), tensors(scratch / "b", {1.0f}, NAN));
  EXPECT_EQ(found[1].largest, std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace ferry
