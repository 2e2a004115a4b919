// Seconds that HiGHS needs to prove Mobius partitions (planner/cuts/mip.h): equal layers
// between an embedding and a head, or uneven ones, into one stage count or into any. Processor
// seconds too, which other programs on the machine disturb less; one thread.
//
//   mip_bench [SECONDS]    the safety net for each case, 60 if not given
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>

#include "planner/cuts/mip.h"
#include "planner/cuts/sample_chains.h"

namespace {

struct Case {
  const char* name;
  int layers;
  bool uneven;        // every layer's costs vary by up to a half
  int stages;         // 0: any
  double gb_per_s;    // 13: a whole PCIe 3.0 x16; 3.25: a quarter of it
  bool real = false;  // first loads, downloads, updates and overhead are charged
};

constexpr Case kCases[] = {
    {"24_layers_8_stages", 24, false, 8, 13},
    {"24_layers_8_stages_slow_link", 24, false, 8, 3.25},
    {"24_layers_8_stages_uneven", 24, true, 8, 13},
    {"24_layers_8_stages_uneven_slow_link", 24, true, 8, 3.25},
    {"24_layers_any_stages", 24, false, 0, 13},
    {"24_layers_any_stages_real", 24, false, 0, 13, true},
    {"24_layers_any_stages_uneven", 24, true, 0, 13},
    {"48_layers_16_stages", 48, false, 16, 13},
    {"48_layers_16_stages_slow_link", 48, false, 16, 3.25},
    {"96_layers_16_stages", 96, false, 16, 13},
    {"96_layers_any_stages", 96, false, 0, 13},
    {"96_layers_any_stages_slow_link", 96, false, 0, 3.25},
    {"96_layers_any_stages_real", 96, false, 0, 13, true},
    {"96_layers_any_stages_uneven", 96, true, 0, 13},
};

ferry::SampleChain chain_of(const Case& c, std::uint64_t seed = 1) {
  const int devices = c.layers > 48 ? 8 : 4;
  ferry::SampleChain chain = ferry::equal_layers(c.layers, devices, devices);
  chain.problem.bandwidth = c.gb_per_s;
  if (c.real) chain.problem.switches = {true, true, true, false, 1e-4};
  if (!c.uneven) return chain;
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> any(0.5, 1.5);
  for (ferry::BlockCosts& block : chain.blocks) {
    const double time = any(random);
    const double bytes = any(random);
    block.forward_time *= time;
    block.backward_time *= time;
    for (double* const cost : {&block.forward_memory, &block.backward_memory, &block.forward_upload,
                               &block.backward_upload, &block.gradient_download}) {
      *cost *= bytes;
    }
  }
  return chain;
}

/// 24 uneven layers in 8 stages, with other costs each time: which are not proven, and the longest.
void many_uneven(ferry::MipLimits limits) {
  constexpr int kQuestions = 32;
  limits.stages = 8;
  int open = 0, evaluated = 0;
  double longest = 0;
  for (int i = 0; i < kQuestions; ++i) {
    const Case& c = kCases[2 + i % 2];  // fast and slow link
    const ferry::SampleChain chain = chain_of(c, static_cast<std::uint64_t>(i + 1));
    const std::clock_t start = std::clock();
    const ferry::MipResult found = ferry::solve_partition_mip(chain.problem, chain.blocks, limits);
    longest = std::max(longest, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
    open += !found.exact;
    evaluated += std::ranges::any_of(found.stage_counts, &ferry::StageCountResult::evaluated);
  }
  std::printf("32_uneven_questions_not_proven %d\n", open);
  std::printf("32_uneven_questions_by_evaluating_all %d\n", evaluated);
  std::printf("32_uneven_questions_longest_cpu_seconds %.3f s\n", longest);
}

}  // namespace

int main(int argc, char** argv) {
  ferry::MipLimits limits;
  limits.seconds = argc > 1 ? std::atof(argv[1]) : 60;
  for (const Case& c : kCases) {
    const ferry::SampleChain chain = chain_of(c);
    limits.stages = c.stages;
    const auto start = std::chrono::steady_clock::now();
    const std::clock_t cpu_start = std::clock();
    const ferry::MipResult found = ferry::solve_partition_mip(chain.problem, chain.blocks, limits);
    const double cpu = static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC;
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
    std::printf("%s_seconds %.3f s\n", c.name, wall.count());
    std::printf("%s_cpu_seconds %.3f s\n", c.name, cpu);
    std::printf("%s_step %.6f s\n", c.name, found.step);
    std::printf("%s_gap %.2e\n", c.name, found.gap);
    std::printf("%s_stages %zu\n", c.name, found.ends.size());
    std::printf("%s_nodes %lld\n", c.name, static_cast<long long>(found.nodes));
    std::printf("%s_iterations %lld\n", c.name, static_cast<long long>(found.iterations));
    std::fflush(stdout);
  }
  many_uneven(limits);
  return 0;
}
