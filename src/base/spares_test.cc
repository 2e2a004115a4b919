#include "base/spares.h"

#include <gtest/gtest.h>

#include <memory>

namespace ferry {
namespace {

TEST(Spares, TheOneThatFitsAndWasGivenBackLast) {
  Spares<int> spares;
  for (const int number : {1, 2, 3, 4}) spares.give_back(std::make_unique<int>(number));
  const auto is_odd = [](int number) { return number % 2 == 1; };
  EXPECT_EQ(*spares.take(is_odd), 3);
  EXPECT_EQ(*spares.take(is_odd), 1);
  EXPECT_EQ(spares.take(is_odd), nullptr);
  EXPECT_EQ(*spares.take([](int) { return true; }), 4);
}

TEST(Spares, OfManyTheOldestGo) {
  Spares<int> spares;
  for (int number = 0; number < 1000; ++number) spares.give_back(std::make_unique<int>(number));
  EXPECT_EQ(spares.take([](int number) { return number < 900; }), nullptr);
  EXPECT_EQ(*spares.take([](int) { return true; }), 999);
}

}  // namespace
}  // namespace ferry
