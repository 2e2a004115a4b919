#include "base/short_vector.h"

#include <gtest/gtest.h>

#include <random>
#include <span>
#include <utility>
#include <vector>

namespace ferry {
namespace {

using Short = ShortVector<int, 3>;

std::vector<int> elements(const Short& vector) { return {vector.begin(), vector.end()}; }

TEST(ShortVector, IsWhatAVectorIsBelowAndBeyondWhatItKeepsInItself) {
  std::mt19937 random(7);
  std::vector<int> expected;
  Short vector;
  bool was_far = false;
  for (int turn = 0; turn < 2000; ++turn) {
    const int number = static_cast<int>(random() % 9);
    const auto at = static_cast<std::ptrdiff_t>(random() % (expected.size() + 1));
    switch (random() % 6) {
      case 0:
      case 1:
        expected.push_back(number);
        vector.push_back(number);
        break;
      case 2: {
        const std::vector<int> more(random() % 3, number);
        expected.insert(expected.begin() + at, more.begin(), more.end());
        vector.insert(vector.begin() + at, more.begin(), more.end());
        break;
      }
      case 3:
        if (at == std::ssize(expected)) break;
        expected.erase(expected.begin() + at);
        vector.erase(vector.begin() + at);
        break;
      case 4:
        EXPECT_EQ(erase(vector, number), std::erase(expected, number));
        break;
      default:
        if (expected.empty()) break;
        EXPECT_EQ(vector.back(), expected.back());
        expected.pop_back();
        vector.pop_back();
    }
    ASSERT_EQ(elements(vector), expected);
    ASSERT_EQ(vector.empty(), expected.empty());
    was_far = was_far || vector.size() > 8;
  }
  EXPECT_TRUE(was_far);
}

TEST(ShortVector, ACopyIsItsOwn) {
  for (const std::size_t size : {0U, 3U, 5U}) {
    Short vector;
    for (std::size_t i = 0; i < size; ++i) vector.push_back(static_cast<int>(i));
    Short copy = vector;
    EXPECT_EQ(copy, vector);
    copy.push_back(7);
    EXPECT_NE(copy, vector);
    EXPECT_EQ(vector.size(), size);
    copy = vector;
    EXPECT_EQ(copy, vector);
  }
}

TEST(ShortVector, WhatIsMovedFromIsEmptyAndOfUse) {
  for (const std::size_t size : {2U, 5U}) {
    Short vector;
    for (std::size_t i = 0; i < size; ++i) vector.push_back(static_cast<int>(i));
    const std::vector<int> before = elements(vector);
    Short moved = std::move(vector);
    EXPECT_EQ(elements(moved), before);
    EXPECT_TRUE(vector.empty());
    vector.push_back(4);
    EXPECT_EQ(elements(vector), std::vector<int>{4});
    vector = std::move(moved);
    EXPECT_EQ(elements(vector), before);
  }
}

TEST(ShortVector, IsReadAsASpan) {
  const Short vector = {4, 5};
  const std::span<const int> span = vector;
  EXPECT_EQ(span.size(), 2U);
  EXPECT_EQ(span.front(), 4);
}

}  // namespace
}  // namespace ferry
