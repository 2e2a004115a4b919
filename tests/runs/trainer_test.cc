// What a run leaves behind when something goes wrong in the middle: checkpoints, its log.
#include "train/trainer.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/input_file.h"
#include "data/scratch_folder.h"
#include "small_run.h"

namespace ferry {
namespace {

/// Calls `act` when step `step` is told of, on the thread that drives.
class AtStep final : public TrainObserver {
 public:
  AtStep(int step, std::function<void()> act) : step_(step), act_(std::move(act)) {}
  void step(const StepReport& report) override {
    if (report.step == step_) act_();
  }

 private:
  const int step_;
  const std::function<void()> act_;
};

/// What a run is told to end with when `act` throws behind its first step.
std::string end_of(const TrainSetup& setup, const std::function<void()>& act) {
  AtStep observer(1, act);
  try {
    train(setup, observer);
    return "no error";
  } catch (const ResourceError& error) {
    return error.what();
  }
}

// Hundreds of steps would be lost that are whole in DRAM.
TEST(Trainer, WhateverEndsAStepTheStateBeforeItIsSaved) {
  const ScratchFolder folder;
  const std::vector<std::pair<std::function<void()>, std::string>> ends = {
      {[] { throw std::bad_alloc(); }, "out of host memory"},
      {[] { throw std::system_error(EAGAIN, std::generic_category()); }, "Resource temporarily"},
      {[] { TORCH_CHECK(false, "the device is lost"); }, "torch: the device is lost"}};
  for (const auto& [act, words] : ends) {
    SCOPED_TRACE(words);
    const TrainSetup asked = small_run(folder, words);
    const std::filesystem::path saved =
        std::filesystem::path(asked.job.out) / "checkpoints" / "step-000001";
    const std::string text = end_of(asked, act);
    EXPECT_TRUE(text.starts_with(words)) << text;
    EXPECT_NE(text.find("go on from " + saved.string()), std::string::npos) << text;
    EXPECT_TRUE(std::filesystem::exists(saved));
  }
}

/// Drives that take nothing while they are full; hears what is said of it.
class Drives : public TrainObserver {
 public:
  void step(const StepReport& report) override { done_ = report.step; }
  void warning(const std::string& text) override { said.push_back(text); }

  std::vector<std::string> said;

 protected:
  void fill() { full_.emplace(16); }
  void make_room() { full_.reset(); }
  int done() const { return done_; }

 private:
  int done_ = 0;
  std::optional<FileSizeLimit> full_;
};

class FullInTheSecondStep : public Drives {
 public:
  void in_step(const Progress& /*progress*/) override {
    if (done() == 1) fill();
  }
};

class FullUntilItIsSaid final : public FullInTheSecondStep {
 public:
  void warning(const std::string& text) override {
    Drives::warning(text);
    make_room();
  }
};

class FullWhileTheRunEvaluates final : public Drives {
 public:
  void step(const StepReport& report) override {
    Drives::step(report);
    if (done() == 2) fill();
  }
  void evaluated(int /*step*/, double /*loss*/) override { make_room(); }
};

std::vector<std::string> lines_of(const TrainSetup& setup) {
  const std::string text = read_file(std::filesystem::path(setup.job.out) / "log.jsonl", 1_MiB);
  std::vector<std::string> lines;
  for (std::size_t begin = 0, end; (end = text.find('\n', begin)) != text.npos; begin = end + 1) {
    lines.push_back(text.substr(begin, end - begin));
  }
  return lines;
}

/// Two steps, and no checkpoint that would write the log.
TrainSetup unsaved_run(const ScratchFolder& folder, const SmallRun& asked = {}) {
  TrainSetup setup = small_run(folder, "out", asked);
  setup.job.train.save_last = false;
  if (asked.evaluates) setup.job.train.eval_every = 2;
  return setup;
}

TEST(Trainer, TheLastLineIsWrittenThoughTheDriveRefusedItAtFirst) {
  const ScratchFolder folder;
  const TrainSetup asked = unsaved_run(folder);
  FullUntilItIsSaid drives;
  train(asked, drives);
  ASSERT_EQ(drives.said.size(), 1U);
  EXPECT_NE(drives.said[0].find("lines wait in memory"), std::string::npos) << drives.said[0];
  const std::vector<std::string> lines = lines_of(asked);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_NE(lines[1].find("\"step\":2"), std::string::npos) << lines[1];
}

TEST(Trainer, AnEvaluationsLineThatTheDriveRefusesIsSaidAndWrittenAtTheEnd) {
  const ScratchFolder folder;
  const TrainSetup asked = unsaved_run(folder, {.evaluates = true});
  FullWhileTheRunEvaluates drives;
  train(asked, drives);
  ASSERT_EQ(drives.said.size(), 1U);
  EXPECT_NE(drives.said[0].find("lines wait in memory"), std::string::npos) << drives.said[0];
  const std::vector<std::string> lines = lines_of(asked);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_NE(lines[2].find("eval_loss"), std::string::npos) << lines[2];
}

TEST(Trainer, LinesThatTheDriveNeverTookAreSaidToBeLost) {
  const ScratchFolder folder;
  FullInTheSecondStep drives;
  train(unsaved_run(folder), drives);
  ASSERT_GE(drives.said.size(), 2U);
  EXPECT_NE(drives.said[1].find("its last lines are lost"), std::string::npos) << drives.said[1];
}

}  // namespace
}  // namespace ferry
