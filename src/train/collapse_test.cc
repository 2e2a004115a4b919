#include "train/collapse.h"

#include <gtest/gtest.h>

namespace ferry {
namespace {

constexpr double kLn96 = 4.5643;

TEST(CollapseWatch, ThreeStepsOfGuessingWithoutAGradientAreACollapse) {
  CollapseWatch watch(96);
  watch.step(1, 4.8, 6.3);
  EXPECT_EQ(watch.last_good(), 0);
  watch.step(2, 3.9, 1.2);
  watch.step(3, kLn96, 0);
  EXPECT_EQ(watch.last_good(), 1);  // step 2 had a good loss with the weights of step 1
  EXPECT_FALSE(watch.has_just_collapsed());
  watch.step(4, kLn96, 0);
  watch.step(5, kLn96, 0);
  EXPECT_TRUE(watch.has_just_collapsed());
  watch.step(6, kLn96, 0);
  EXPECT_FALSE(watch.has_just_collapsed());  // said once
  EXPECT_EQ(watch.last_good(), 1);
}

TEST(CollapseWatch, FarWorseThanGuessingIsACollapseToo) {
  CollapseWatch watch(96);
  watch.step(1, 4.8, 6.3);
  for (const int done : {2, 3, 4}) watch.step(done, 5000, 200);
  EXPECT_TRUE(watch.has_just_collapsed());
  EXPECT_EQ(watch.last_good(), 0);
}

TEST(CollapseWatch, AModelThatBeginsBadlyMayLearn) {
  CollapseWatch watch(96);
  for (const int done : {1, 2, 3}) watch.step(done, 40, 200);
  EXPECT_EQ(watch.last_good(), std::nullopt);
}

TEST(CollapseWatch, ACollapseIsToldOfOnceThoughABadBeginningGoesOn) {
  CollapseWatch watch(96);
  for (const int done : {1, 2, 3}) watch.step(done, kLn96, 0);
  EXPECT_TRUE(watch.has_just_collapsed());
  watch.step(4, 40, 200);  // far worse than guessing, and no step was better before
  EXPECT_FALSE(watch.has_just_collapsed());
  watch.step(5, kLn96, 0);
  EXPECT_FALSE(watch.has_just_collapsed());
}

TEST(CollapseWatch, ALearnedTextWithoutGradientIsNoCollapse) {
  CollapseWatch watch(96);
  for (const int done : {1, 2, 3, 4}) {
    watch.step(done, 0.001, 0);
    EXPECT_EQ(watch.last_good(), done - 1);
  }
}

TEST(CollapseWatch, AGoodStepEndsASuspicion) {
  CollapseWatch watch(96);
  watch.step(1, 4.8, 6.3);
  watch.step(2, kLn96, 0);
  EXPECT_EQ(watch.last_good(), 0);
  watch.step(3, 4.1, 2);
  EXPECT_EQ(watch.last_good(), 2);
}

TEST(CollapseWatch, WhatAnEarlierRunWasToldOfIsToldAgain) {
  CollapseWatch watch(96);
  watch.step(1, 4.8, 6.3);
  for (const int done : {2, 3, 4, 5}) watch.step(done, kLn96, 0);
  watch.tell_again();
  EXPECT_FALSE(watch.has_just_collapsed());
  watch.step(6, kLn96, 0);
  EXPECT_TRUE(watch.has_just_collapsed());
  EXPECT_EQ(watch.last_good(), 0);
}

}  // namespace
}  // namespace ferry
