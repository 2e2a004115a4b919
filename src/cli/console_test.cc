#include "cli/console.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

namespace ferry {
namespace {

/// A terminal, or a file, that keeps what is written; its clock is set by hand.
class ScreenForTests {
 public:
  explicit ScreenForTests(std::optional<int> wide) : columns(wide) {}

  Screen screen() {
    return {.write = [this](const std::string& text) { written += text; },
            .columns = [this] { return columns; },
            .now = [this] { return now; }};
  }

  /// What was written since it was asked last.
  std::string take() { return std::exchange(written, ""); }

  std::optional<int> columns;
  Micros now{1e9};
  std::string written;
};

Micros seconds(double count) { return from_seconds(count); }

constexpr std::int64_t kMega = 1 << 20;

TEST(PhaseLines, AFileGetsABeginningALineEveryTenSecondsAndAnEnd) {
  ScreenForTests file(std::nullopt);
  PhaseLines lines(file.screen());
  lines.progress({"loading out/base", 0, 100 * kMega});
  EXPECT_EQ(file.take(), "loading out/base  100.0 MiB\n");
  file.now += seconds(9);
  lines.progress({"loading out/base", 18 * kMega, 100 * kMega});
  EXPECT_EQ(file.take(), "");
  file.now += seconds(1);
  lines.progress({"loading out/base", 20 * kMega, 100 * kMega});
  EXPECT_EQ(file.take(), "loading out/base  20.0 MiB of 100.0 MiB  2.0 MiB/s  left 40s\n");
  file.now += seconds(15);
  lines.progress({"loading out/base", 100 * kMega, 100 * kMega});
  EXPECT_EQ(file.take(), "loading out/base  100.0 MiB in 25s  4.0 MiB/s\n");
}

TEST(PhaseLines, APhaseShorterThanASecondHasNoEnd) {
  ScreenForTests file(std::nullopt);
  PhaseLines lines(file.screen());
  ProgressCount count(lines, "saving", 10, "tensors");
  file.now += seconds(0.9);
  count.advance(10);
  EXPECT_EQ(file.take(), "saving  10 tensors\n");
}

TEST(PhaseLines, AStepIsSeenOnceItHasTakenTwoSeconds) {
  ScreenForTests terminal(80);
  PhaseLines lines(terminal.screen());
  lines.passing({"step 7", 1, 41, "tasks"});
  terminal.now += seconds(1.9);
  lines.passing({"step 7", 3, 41, "tasks"});
  EXPECT_EQ(terminal.take(), "");
  terminal.now += seconds(0.1);
  lines.passing({"step 7", 5, 41, "tasks"});
  EXPECT_EQ(terminal.take(), "\r\033[Kstep 7  5 of 41 tasks  2 tasks/s  left 18s");
  terminal.now += seconds(18);
  lines.passing({"step 7", 41, 41, "tasks"});
  EXPECT_EQ(terminal.take(), "\r\033[K");
  lines.passing({"step 8", 1, 41, "tasks"});
  terminal.now += seconds(1);
  lines.passing({"step 8", 41, 41, "tasks"});
  EXPECT_EQ(terminal.take(), "");
}

TEST(PhaseLines, AFileHasNoWordOfWhatPasses) {
  ScreenForTests file(std::nullopt);
  PhaseLines lines(file.screen());
  lines.passing({"step 7", 1, 40, "tasks"});
  file.now += seconds(60);
  lines.passing({"step 7", 20, 40, "tasks"});
  lines.passing({"step 7", 40, 40, "tasks"});
  EXPECT_EQ(file.take(), "");
}

TEST(PhaseLines, OneThingIsNotCounted) {
  ScreenForTests file(std::nullopt);
  PhaseLines lines(file.screen());
  lines.progress({"planning", 0, 1, "strategies", "mobius"});
  file.now += seconds(12);
  lines.progress({"planning", 0, 1, "strategies", "mobius"});
  file.now += seconds(8);
  lines.progress({"planning", 1, 1, "strategies"});
  EXPECT_EQ(file.take(), "planning\nplanning  mobius\nplanning in 20s\n");
}

TEST(PhaseLines, ATerminalHasOneLineDrawnFiveTimesASecondAtMost) {
  ScreenForTests terminal(60);
  PhaseLines lines(terminal.screen());
  ProgressCount count(lines, "measuring", 4, "blocks");
  EXPECT_EQ(terminal.take(), "\r\033[Kmeasuring  0 of 4 blocks");
  terminal.now += seconds(0.1);
  count.advance(1, "llama-mlp");
  EXPECT_EQ(terminal.take(), "");
  terminal.now += seconds(1.9);
  count.advance(1, "llama-mlp");
  EXPECT_EQ(terminal.take(), "\r\033[Kmeasuring  2 of 4 blocks  1 blocks/s  left 2s  llama-mlp");
  terminal.now += seconds(2);
  count.advance(2);
  EXPECT_EQ(terminal.take(), "\r\033[Kmeasuring  4 blocks in 4s  1 blocks/s\n");
}

TEST(PhaseLines, ALineInPlaceFollowsTheWidthAndCutsTheNameFirst) {
  ScreenForTests terminal(46);
  PhaseLines lines(terminal.screen());
  ProgressCount count(lines, "loading a/model/with/a/long/näme", 8 * kMega);
  EXPECT_EQ(terminal.take(), "\r\033[Kloading a/model/with/a/long/…  0 B of 8.0 MiB");
  terminal.columns = 20;
  terminal.now += seconds(1);
  count.advance(kMega);
  EXPECT_EQ(terminal.take(), "\r\033[Kloading a/m…  1.0 …");
}

TEST(PhaseLines, WhatElseIsSaidTakesTheLineInPlaceAway) {
  ScreenForTests terminal(80);
  {
    PhaseLines lines(terminal.screen());
    lines.progress({"taking memory", 0, 8 * kMega});
    terminal.take();
    lines.phase("a word");
    EXPECT_EQ(terminal.take(), "\r\033[Ka word\n");
    lines.progress({"taking memory", kMega, 8 * kMega});
    terminal.take();
  }
  EXPECT_EQ(terminal.take(), "\r\033[K") << "an error message may follow";
}

TEST(Console, OnlyATerminalCutsALine) {
  EXPECT_EQ(cut_to("größer als 9", 9), "größer a…");
  EXPECT_EQ(cut_to("größer als 9", 12), "größer als 9");
  EXPECT_EQ(cut_to("größer als 9", std::nullopt), "größer als 9");
  EXPECT_EQ(cut_to("größer", 1), "…");
}

}  // namespace
}  // namespace ferry
