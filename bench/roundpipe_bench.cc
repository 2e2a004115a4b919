// Planning time of RoundPipe's partition (RoundPipe section 5: 5.0 ms for about 65 layers, 1.47 s
// for 94), alone and with the ranking by simulation.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "papers/roundpipe/roundpipe_dispatch.h"

namespace {

double best_seconds(auto act) {
  double best = 1e9;
  for (int repeat = 0; repeat < 5; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    act();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    best = std::min(best, taken.count());
  }
  return best;
}

}  // namespace

int main() {
  for (const int count : {65, 94}) {
    // No two layers alike, so that every contiguous sum is a candidate of its own.
    std::vector<ferry::RoundPipeLayer> layers;
    for (int l = 0; l < count; ++l) {
      const double time = 1 + 0.001 * ((l * 37) % 101);
      layers.push_back({time, 3 * time, 1, 2});
    }
    const ferry::RoundPipeProblem problem{.devices = 8, .micro_batches = 16, .memory = 24};
    std::printf("roundpipe_partition_%d_layers_seconds %.6f\n", count,
                best_seconds([&] { (void)ferry::roundpipe_partitions(problem, layers); }));
    std::printf("roundpipe_search_%d_layers_seconds %.6f\n", count, best_seconds([&] {
                  (void)ferry::search_roundpipe({.problem = problem, .flush = false}, layers);
                }));
  }
  return 0;
}
