// How often, and by how much, more memory makes a plan slower: pairs of questions that differ in
// the devices' memory alone, from 8 to 192 GiB (planner/realistic_questions.h).
//
//   memory_bench [PAIRS [FIRST_SEED [STRATEGY]]]   20000, 1, auto
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <variant>

#include "planner/answer.h"
#include "planner/realistic_questions.h"

namespace {

using namespace ferry;

constexpr double kRounding = 1e-9;

struct Pair {
  PlanQuestion less, more;
};

Pair pair_of(std::uint64_t seed, const std::string& strategy) {
  PlanQuestion question = realistic_question(seed);
  question.strategy = strategy;
  std::mt19937_64 random(seed);
  const auto gib = [&](double from, double to) {
    constexpr double kUnit = 1.0 / (std::uint64_t{1} << 53);
    return from + (to - from) * (static_cast<double>(random() >> 11) * kUnit);
  };
  const auto with = [&](double each) {
    return with_device_memory(
        question, Bytes{static_cast<std::int64_t>(each * static_cast<double>((1_GiB).count))});
  };
  const double least = gib(8, 160);
  return {with(least), with(std::min(192.0, gib(least, 2 * least)))};
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t pairs = argc > 1 ? std::stoull(argv[1]) : 20'000;
  const std::uint64_t first = argc > 2 ? std::stoull(argv[2]) : 1;
  const std::string strategy = argc > 3 ? argv[3] : "auto";
  int planned = 0, slower = 0;
  double worst = 0;
  for (std::uint64_t seed = first; seed < first + pairs; ++seed) {
    const Pair pair = pair_of(seed, strategy);
    const AnswerWithoutRemedies less = answer_question(pair.less);
    const auto* before = std::get_if<Planned>(&less);
    if (before == nullptr) continue;
    const AnswerWithoutRemedies more = answer_question(pair.more);
    const auto* after = std::get_if<Planned>(&more);
    const double loss = after ? after->expected.count / before->expected.count - 1 : 1;
    ++planned;
    worst = std::max(worst, loss);
    if (loss <= kRounding) continue;
    ++slower;
    std::printf("seed %llu: %.3f %% slower\n", static_cast<unsigned long long>(seed), loss * 100);
    std::fflush(stdout);
  }
  std::printf("memory_pairs %d pairs\nmemory_slower %d pairs\nmemory_worst %.4f %%\n", planned,
              slower, worst * 100);
}
