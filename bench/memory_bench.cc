// How often, and by how much, more memory makes a plan slower: random questions
// (planner/realistic_questions.h), each planned with many memories of its devices from 8 to
// 192 GiB. Any two memories of a question are a pair.
//
//   memory_bench [QUESTIONS [MEMORIES [FIRST_SEED [STRATEGY]]]]   10, 64, 1, auto: 20,160 pairs
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "planner/answer.h"
#include "planner/realistic_questions.h"

namespace {

using namespace ferry;

constexpr int kMicroBatches = 2;  // planning takes as long as there are tasks
constexpr double kRounding = 1e-9;
constexpr double kLeastGib = 8, kMostGib = 192;

// Ascending; evenly many to a doubling.
std::vector<Bytes> memories_of(std::uint64_t seed, int count) {
  constexpr double kUnit = 1.0 / (std::uint64_t{1} << 53);
  std::mt19937_64 random(seed);
  std::vector<Bytes> memories;
  for (int i = 0; i < count; ++i) {
    const double share = static_cast<double>(random() >> 11) * kUnit;
    const double gib = kLeastGib * std::pow(kMostGib / kLeastGib, share);
    memories.emplace_back(static_cast<std::int64_t>(gib * static_cast<double>((1_GiB).count)));
  }
  std::ranges::sort(memories);
  return memories;
}

struct Pairs {
  int all = 0;
  int slower = 0;
  double worst = 0;  // of the step with less memory
};

// `steps` by ascending memory; infinite where nothing fits.
void count_pairs(const std::vector<double>& steps, Pairs& pairs) {
  for (std::size_t more = 1; more < steps.size(); ++more) {
    for (std::size_t less = 0; less < more; ++less) {
      if (std::isinf(steps[less])) continue;
      ++pairs.all;
      const double loss = steps[more] / steps[less] - 1;
      pairs.worst = std::max(pairs.worst, loss);
      pairs.slower += loss > kRounding ? 1 : 0;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto asked = [&](int at, int otherwise) {
    return argc > at ? std::stoi(argv[at]) : otherwise;
  };
  const int questions = asked(1, 10), count = asked(2, 64), first = asked(3, 1);
  Pairs pairs;
  for (int seed = first; seed < first + questions; ++seed) {
    PlanQuestion question = realistic_question(static_cast<std::uint64_t>(seed));
    question.micro_batches = kMicroBatches;
    if (argc > 4) question.strategy = argv[4];
    std::vector<double> steps;
    for (const Bytes each : memories_of(static_cast<std::uint64_t>(seed), count)) {
      const AnswerWithoutRemedies answer = answer_question(with_device_memory(question, each));
      const auto* planned = std::get_if<Planned>(&answer);
      steps.push_back(planned ? planned->expected.seconds() : HUGE_VAL);
    }
    count_pairs(steps, pairs);
    std::printf("seed %d: %.3f to %.3f s; so far %d pairs, %d slower, worst %.4f %%\n", seed,
                steps.front(), steps.back(), pairs.all, pairs.slower, pairs.worst * 100);
    std::fflush(stdout);
  }
  std::printf("memory_pairs %d pairs\nmemory_slower %d pairs\nmemory_worst %.4f %%\n", pairs.all,
              pairs.slower, pairs.worst * 100);
}
