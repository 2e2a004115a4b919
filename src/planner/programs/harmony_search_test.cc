#include "planner/programs/harmony_search.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "base/error.h"

namespace ferry {
namespace {

const std::filesystem::path kFolder = FERRY_SOURCE_DIR "/../shared/data/harmony_profiles";

constexpr Bytes kTenGiB{std::int64_t{10} << 30};

// A row of the table "Expected search results" beside the profiles.
struct Winner {
  const char* model;
  HarmonyMode mode;
  int gpus;
  int minibatch;
  Bytes capacity;
  const char* packing;
  bool prefetch;
  int candidates;
  int forward_batch;
  std::size_t forward;
  int backward_batch;
  std::size_t backward;
  double step;  // seconds, as printed
  double printed = 0.5e-4;
};

HarmonyFound search(const Winner& row, const HarmonyProfile& profile) {
  const HarmonyProblem problem{profile, row.mode, harmony_server(row.gpus), row.minibatch};
  HarmonySearch search;
  search.capacity = row.capacity;
  search.prefetch = row.prefetch;
  set_methods(search, row.packing);
  return search_harmony(problem, search);
}

TEST(HarmonySearch, WinnersAndCandidatesAreHarmonys) {
  if (!std::filesystem::exists(kFolder)) GTEST_SKIP() << "no " << kFolder;
  constexpr auto kDp = HarmonyMode::data_parallel;
  constexpr auto kPp = HarmonyMode::pipeline;
  constexpr const char* kTwo = "time, reuse / time";
  constexpr const char* kAll = "greedy, memory, reuse, time / greedy, memory, time";
  constexpr Bytes kNine{9'000'000'000};
  const Winner rows[] = {
      {"bert96", kDp, 2, 32, kTenGiB, kTwo, false, 24, 8, 4, 8, 10, 19.4213},
      {"bert96", kPp, 2, 32, kTenGiB, kTwo, false, 32, 8, 9, 8, 10, 17.8738},
      {"vgg416", kDp, 2, 32, kTenGiB, kTwo, false, 25, 8, 5, 8, 16, 11.8782},
      {"vgg416", kPp, 2, 32, kTenGiB, kTwo, false, 33, 8, 5, 8, 16, 10.5898},
      {"bert_large", kDp, 2, 32, kTenGiB, kAll, false, 78, 16, 1, 4, 2, 4.6084},
      {"bert_large", kPp, 2, 32, kTenGiB, kAll, false, 121, 8, 1, 8, 3, 4.3994},
      {"bert_large", kPp, 4, 600, kTenGiB, "time / time", true, 202, 120, 24, 50, 25, 37.7700},
      {"bert96", kDp, 4, 64, kNine, kTwo, false, 25, 8, 5, 8, 13, 22.642, 0.5e-3},
      {"bert96", kPp, 4, 64, kNine, kTwo, false, 42, 16, 24, 16, 25, 19.056, 0.5e-3},
      {"vgg416", kDp, 4, 64, kTenGiB, kTwo, false, 25, 4, 3, 4, 9, 13.956, 0.5e-3},
      {"vgg416", kPp, 4, 64, kTenGiB, kTwo, false, 42, 8, 15, 8, 16, 11.783, 0.5e-3},
  };
  for (const Winner& row : rows) {
    SCOPED_TRACE(std::string(row.model) + " D=" + std::to_string(row.minibatch) +
                 " N=" + std::to_string(row.gpus) + (row.mode == kDp ? " vDP" : " vPP"));
    const auto begin = std::chrono::steady_clock::now();
    const auto profile = read_harmony_profile(kFolder / (std::string(row.model) + ".json"));
    const auto read = std::chrono::steady_clock::now();
    const HarmonyFound found = search(row, profile);
    const auto end = std::chrono::steady_clock::now();
    printf("%s %d %d: read %.3f search %.3f\n", row.model, row.minibatch, row.gpus,
           std::chrono::duration<double>(read - begin).count(),
           std::chrono::duration<double>(end - read).count());
    EXPECT_EQ(found.candidates, row.candidates);
    ASSERT_FALSE(found.ranked.empty());
    const HarmonyCandidate& best = found.ranked.front();
    EXPECT_EQ(best.tuple.forward_batch, row.forward_batch);
    EXPECT_EQ(best.tuple.forward.size(), row.forward);
    EXPECT_EQ(best.tuple.backward_batch, row.backward_batch);
    EXPECT_EQ(best.tuple.backward.size(), row.backward);
    EXPECT_NEAR(best.step.seconds(), row.step, row.printed);
    printf("  %s\n", best.packing.c_str());
  }
}

}  // namespace
}  // namespace ferry
