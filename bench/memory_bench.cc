// How often, and by how much, more memory makes a plan slower: pairs of questions that differ in
// the devices' memory alone, over realistic models (7B to 70B) and machines (1 to 8 GPUs of 8 to
// 192 GiB, with and without drives).
//
//   memory_bench [PAIRS [FIRST_SEED [STRATEGY]]]   20000, 1, auto
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <random>
#include <string>
#include <variant>

#include "llama_shape.h"
#include "planner/answer.h"
#include "planner/costs/estimate.h"

namespace {

using namespace ferry;

constexpr double kRounding = 1e-9;

class Draws {
 public:
  explicit Draws(std::uint64_t seed) : random_(seed) {}

  int one_of(std::initializer_list<int> options) {
    return *(options.begin() + static_cast<std::ptrdiff_t>(random_() % options.size()));
  }
  /// At least `least` and below `end`.
  double between(double least, double end) {
    constexpr double kUnit = 1.0 / (std::uint64_t{1} << 53);
    return least + (end - least) * (static_cast<double>(random_() >> 11) * kUnit);
  }

 private:
  std::mt19937_64 random_;
};

constexpr LlamaShape kShapes[] = {{"7b", 3584, 28, 28, 4, 18944, 152064},
                                  {"8b", 4096, 32, 32, 4, 14336, 128256},
                                  {"13b", 5120, 40, 40, 4, 13824, 32000},
                                  {"33b", 6656, 60, 52, 4, 17920, 32000},
                                  {"70b", 8192, 80, 64, 4, 28672, 128256}};

Machine machine_of(Draws& draws) {
  Machine machine;
  machine.name = "bench";
  machine.host = {.cores = 32,
                  .memory = 1_GiB * draws.one_of({128, 256, 512, 1024, 2048}),
                  .memory_bandwidth = {draws.one_of({70, 150, 300}) * 1e9},
                  .update_rate = draws.one_of({2, 4, 8}) * 1e9,
                  .origin = {}};
  machine.roots = {{"root0", {26e9}, {26e9}}, {"root1", {26e9}, {26e9}}};
  const int devices = draws.one_of({1, 2, 4, 8});
  const double link = draws.one_of({12, 21, 50}) * 1e9;
  for (int d = 0; d < devices; ++d) {
    MachineDevice device;
    device.name = "gpu" + std::to_string(d);
    device.kind = DeviceKind::cuda;
    device.index = d;
    device.flops_bf16 = 160e12;
    device.memory_bandwidth = {1008e9};
    device.up = device.down = {link};
    device.root = d % 2;
    machine.devices.push_back(device);
  }
  const int drives = draws.one_of({0, 2, 4});
  for (int d = 0; d < drives; ++d) {
    Drive drive;
    drive.name = "ssd" + std::to_string(d);
    drive.capacity = Bytes{4'000'000'000'000};
    drive.read = {6.5e9};
    drive.write = {3.4e9};
    machine.drives.push_back(drive);
  }
  return machine;
}

struct Pair {
  PlanQuestion less, more;
};

// Of a seed: the same question with more memory on every device, from 8 to 192 GiB.
Pair pair_of(std::uint64_t seed, const std::string& strategy) {
  Draws draws(seed);
  PlanQuestion question;
  question.model = model_of(kShapes[draws.one_of({0, 1, 2, 3, 4})]);
  question.machine = machine_of(draws);
  question.micro_batches = draws.one_of({4, 8, 16});
  question.sequence = 1024;
  question.precision = Precision::bf16;
  question.clips = draws.one_of({0, 1}) == 1;
  question.host_budget = question.machine.host.memory;
  question.strategy = strategy;
  const double least = draws.between(8, 160);
  const double most = std::min(192.0, least * draws.between(1.0, 2.0));
  const auto with = [&](double gib) {
    PlanQuestion one = question;
    const Bytes each{static_cast<std::int64_t>(gib * static_cast<double>((1_GiB).count))};
    for (MachineDevice& device : one.machine.devices) device.memory = each;
    one.profile = estimate_profile(one.model, one.machine, one.precision, {1, 1024});
    return one;
  };
  return {with(least), with(most)};
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
    const double loss =
        after ? after->prediction.step.count / before->prediction.step.count - 1 : 1;
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
