#include "train/earlier_lines.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/error.h"
#include "data/scratch_folder.h"

namespace ferry {
namespace {

/// Steps of which the last `clipped` had norms above 1.
EarlierLines lines_of(int steps, int clipped) {
  EarlierLines lines;
  for (int step = 1; step <= steps; ++step) {
    lines.learned.push_back({step, 2.0, step > steps - clipped ? 1.5 : 1.0});
  }
  return lines;
}

TEST(EarlierLines, OfALogThatIsNotThereAreNone) {
  const ScratchFolder folder;
  EXPECT_EQ(read_earlier_lines(folder / "log.jsonl", 5).text, "");
}

TEST(EarlierLines, AreThoseOfStepsBeforeWhateverElseIsThere) {
  const std::string step = R"({"step":1,"loss":2.0,"grad_norm":1.5,"learned_tokens":3})";
  const std::string evaluation = R"({"step":1,"eval_loss":2.0})";
  const std::string later = R"({"step":2,"loss":1.0,"grad_norm":1.0,"learned_tokens":3})";
  const std::string blank(3 << 20, ' ');  // a line longer than what is read at once
  const ScratchFolder folder;
  const EarlierLines lines = read_earlier_lines(
      folder.put("log.jsonl", step + "\n" + blank + "\n" + later + "\nhalf a li\n" + evaluation),
      1);
  EXPECT_EQ(lines.text, step + "\n" + evaluation + "\n");
  ASSERT_EQ(lines.learned.size(), 1U);
  EXPECT_EQ(lines.learned.front().grad_norm, 1.5);
  EXPECT_EQ(lines.evaluated, 1);
}

// A run that resumes writes the log anew: taken for empty, its history would be gone.
TEST(EarlierLines, ALogThatCannotBeReadIsRefused) {
  const ScratchFolder folder;
  const std::string log = folder / "log.jsonl";
  std::filesystem::create_symlink("/proc/self/mem", log);  // whose first page nobody can read
  try {
    read_earlier_lines(log, 5);
    FAIL() << "was taken for empty";
  } catch (const ResourceError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("read failed: " + log), std::string::npos) << text;
    EXPECT_NE(text.find("try: "), std::string::npos) << text;
  }
}

TEST(ClippedShare, IsThatOfTheLastHundredStepsInTwentieths) {
  EXPECT_EQ(clipped_share(lines_of(10, 0), 1.0), 0.0);
  EXPECT_EQ(clipped_share(lines_of(10, 10), 1.0), 1.0);
  EXPECT_EQ(clipped_share(lines_of(10, 10), 1.5), 0.0) << "a norm of the limit is not above it";
  EXPECT_EQ(clipped_share(lines_of(100, 33), 1.0), 0.35);
  EXPECT_EQ(clipped_share(lines_of(100, 32), 1.0), 0.3);
  EXPECT_EQ(clipped_share(lines_of(1000, 100), 1.0), 1.0);
}

TEST(ClippedShare, OfAFewStepsIsUnknown) {
  EXPECT_EQ(clipped_share(lines_of(9, 9), 1.0), std::nullopt);
  EXPECT_EQ(clipped_share({}, 1.0), std::nullopt);
}

}  // namespace
}  // namespace ferry
