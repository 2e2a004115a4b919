// Seconds that HiGHS needs to prove Mobius partitions (planner/mip.h): uneven and equal layers, one
// stage count and all of them.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "planner/mip.h"

namespace {

using ferry::BlockCosts;
using ferry::EvaluatorProblem;

// GB and seconds: an embedding, equal transformer layers of a 15B-like model, a head. `spread` makes
// the layers uneven by up to that part.
std::vector<BlockCosts> model(int layers, double spread) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> any(1 - spread, 1 + spread);
  const auto block = [](double forward, double weights, double inner) {
    BlockCosts costs;
    costs.forward_time = forward;
    costs.backward_time = 3 * forward;
    costs.forward_upload = costs.backward_upload = weights;
    costs.forward_memory = weights + inner;
    costs.backward_memory = 2 * weights + 4 * inner;
    costs.activation = costs.activation_gradient = 0.02;
    costs.gradient_download = weights;
    costs.update_time = weights / 20;
    return costs;
  };
  std::vector<BlockCosts> blocks{block(0.002, 0.6, 0.05)};
  for (int i = 0; i < layers; ++i) {
    blocks.push_back(spread == 0 ? block(0.04, 0.9, 0.3)
                                 : block(0.04 * any(random), 0.9 * any(random), 0.3 * any(random)));
  }
  blocks.push_back(block(0.03, 0.6, 0.5));
  return blocks;
}

struct Case {
  const char* name;
  int layers;
  double spread;
  int stages;
  int devices;
  int micro_batches;
  double bandwidth;
  bool real;
};

}  // namespace

int main(int argc, char** argv) {
  const Case cases[] = {
      {"24x8", 24, 0, 8, 4, 4, 13, false},
      {"24x8_uneven", 24, 0.5, 8, 4, 4, 13, false},
      {"24x12_uneven", 24, 0.5, 12, 4, 4, 13, false},
      {"24x8_slow_link", 24, 0, 8, 4, 4, 3, false},
      {"24x8_slow_uneven", 24, 0.5, 8, 4, 4, 3, false},
      {"24_all", 24, 0, 0, 4, 4, 13, false},
      {"24_all_uneven", 24, 0.5, 0, 4, 4, 13, false},
      {"24_all_real", 24, 0, 0, 4, 4, 13, true},
      {"48x16", 48, 0, 16, 4, 8, 13, false},
      {"96x16", 96, 0, 16, 8, 8, 13, false},
      {"96_all", 96, 0, 0, 8, 8, 13, false},
      {"96_all_slow", 96, 0, 0, 8, 8, 3, false},
      {"96_all_real", 96, 0, 0, 8, 8, 13, true},
  };
  for (const Case& c : cases) {
    if (argc > 1 && std::string(c.name).find(argv[1]) == std::string::npos) continue;
    EvaluatorProblem problem;
    problem.devices = c.devices;
    problem.micro_batches = c.micro_batches;
    problem.memory = 22;
    problem.bandwidth = c.bandwidth;
    if (c.real) problem.switches = {true, true, true, false, 1e-4};
    const auto blocks = model(c.layers, c.spread);
    ferry::MipLimits limits;
    limits.stages = c.stages;
    if (argc > 2) limits.seconds = std::atof(argv[2]);
    if (std::getenv("S")) limits.stages = std::atoi(std::getenv("S"));
    const auto start = std::chrono::steady_clock::now();
    const ferry::MipResult result = ferry::solve_partition_mip(problem, blocks, limits);
    const std::chrono::duration<double> used = std::chrono::steady_clock::now() - start;
    std::printf("%s seconds %.2f step %.6f bound %.6f gap %.6f exact %d stages %zu nodes %lld iterations %lld\n",
                c.name, used.count(), result.step, result.lower_bound, result.gap, result.exact,
                result.ends.size(), static_cast<long long>(result.nodes),
                static_cast<long long>(result.iterations));
    std::fflush(stdout);
    if (std::getenv("V"))
      for (const auto& s : result.stage_counts)
        std::printf("   S %d bound %.6f step %.6f nodes %lld\n", s.stages, s.lower_bound, s.step,
                    static_cast<long long>(s.nodes));
  }
  return 0;
}
