#include "train/update_rate.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <span>
#include <vector>

#include "base/check.h"
#include "optim/adamw.h"
#include "optim/worker_team.h"

namespace ferry {
namespace {

constexpr int kWarmUps = 2;
constexpr int kRounds = 5;

}  // namespace

double measure_update_rate(Precision precision, int threads, std::int64_t parameters) {
  FERRY_CHECK(parameters > 0, "an update needs parameters");
  const auto count = static_cast<std::size_t>(parameters);
  std::vector<float> weight, m(count), v(count), gradient(count);
  std::vector<std::uint16_t> hi, lo;
  Update update{.state = FullState{}, .gradient = std::span<const float>(gradient)};
  if (precision == Precision::bf16) {
    hi.resize(count);
    lo.resize(count);
    update.state = SplitState{hi, lo, m, v};
  } else {
    weight.resize(count);
    update.state = FullState{weight, m, v};
  }
  WorkerTeam team(threads);
  std::vector<double> seconds;
  for (int i = 0; i < kWarmUps + kRounds; ++i) {
    const auto start = std::chrono::steady_clock::now();
    adamw_step({.lr = 1e-4}, {&update, 1}, 1.0F, team);
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::ranges::sort(seconds);
  return static_cast<double>(parameters) / seconds[seconds.size() / 2];
}

}  // namespace ferry
