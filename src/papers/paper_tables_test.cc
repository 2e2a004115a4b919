#include "papers/paper_tables.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "base/error.h"
#include "papers/paper_auto.h"

namespace ferry {
namespace {

const PaperSources kSources = {FERRY_SOURCE_DIR "/machines", std::nullopt};

TEST(PaperTables, EveryPromiseOfTheQuickTablesHolds) {
  for (const char* name : {"ratel", "roundpipe", "pipelines", "ftpipe"}) {
    const auto rows = rows_of(paper_table(name), kSources);
    EXPECT_GE(rows.size(), 9U);
    for (const PaperRow& row : rows) {
      EXPECT_EQ(row.table, name);
      EXPECT_TRUE(row.holds()) << name << ", " << row.what << ": " << row.ours << ", published "
                               << row.published;
    }
  }
}

TEST(PaperTables, RatelsRowsBeyondTenPercentSayWhy) {
  for (const PaperRow& row : rows_of(paper_table("ratel"), kSources)) {
    EXPECT_EQ(row.remark.empty(), std::abs(row.error) <= 0.1) << row.what;
  }
}

TEST(PaperTables, AnUnknownTableNamesTheNearest) {
  try {
    paper_table("mobios");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean 'mobius'"), std::string::npos);
  }
}

// A 3B model fits the four GPUs' memory, where every streaming strategy pays its links.
TEST(PaperAuto, BeatsEveryStreamingStrategyWhereTheGpusHoldTheModel) {
  for (const char* machine : {"p3.8xlarge", "4x3090ti-2+2"}) {
    const auto result =
        compare_with_auto(auto_question({machine, "mobius-3b", 4}, kSources.machines));
    ASSERT_EQ(result.singles.size(), 5U);
    for (const AutoComparison::Single& single : result.singles) {
      ASSERT_TRUE(single.step) << single.strategy << ": " << single.lacks;
      EXPECT_GE(*single.step, 1.2 * result.step) << single.strategy << " on " << machine;
    }
  }
}

TEST(PaperAuto, EveryCaseNamesAMachineAndAModelThatAreThere) {
  for (const AutoCase& one : auto_cases()) {
    EXPECT_NO_THROW(auto_question(one, kSources.machines)) << one.machine << " " << one.model;
  }
}

TEST(PaperRows, AnErrorIsToTheNearerEndOfItsBand) {
  EXPECT_EQ(within_row("a", 4, 3.8, 5.1).error, 0);
  EXPECT_NEAR(within_row("a", 1.9, 3.8, 5.1).error, -0.5, 1e-12);
  EXPECT_FALSE(within_row("a", 1.9, 3.8, 5.1).holds());
  EXPECT_TRUE(band_row("a", 1.9, 3.8, 5.1).holds());  // told, not promised
  EXPECT_EQ(band_row("a", 1.9, 3.8, 5.1).published, "3.8 - 5.1");
  EXPECT_TRUE(printed_row("a", 0.1714, 0.171, 1e-3).holds());
  EXPECT_FALSE(printed_row("a", 0.1716, 0.171, 1e-3).holds());
  EXPECT_TRUE(printed_row("a", 0.0004, 0, 1e-3).holds());
}

}  // namespace
}  // namespace ferry
