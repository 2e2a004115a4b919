#include "papers/harmony/sample_harmony.h"

#include <random>

namespace ferry {
namespace {

// Packs of [0, end), none empty.
HarmonyPacks random_packs(int end, std::mt19937_64& random) {
  HarmonyPacks packs;
  int first = 0;
  for (int l = 1; l <= end; ++l) {
    if (l < end && random() % 2 == 0) continue;
    packs.push_back({first, l});
    first = l;
  }
  return packs;
}

}  // namespace

HarmonyProblem round_harmony(HarmonyMode mode, int layers, int gpus, int minibatch) {
  HarmonyProblem problem;
  problem.mode = mode;
  problem.minibatch = minibatch;
  problem.server = harmony_server(gpus);
  for (HarmonyGpu& gpu : problem.server.gpus) gpu.swap_in = gpu.swap_out = 100;
  problem.server.peer = 100;
  problem.server.messages = 200;
  problem.profile.source = "round.json";
  problem.profile.forward_sizes = problem.profile.backward_sizes = {1, 4};
  HarmonyLayer layer;
  layer.input_per_sample = 10;
  layer.weights = layer.gradients = 100_B;
  layer.update = from_seconds(5);
  layer.forward = {{from_seconds(1), from_seconds(4)}, {300_B, 300_B}};
  layer.backward = {{from_seconds(3), from_seconds(12)}, {300_B, 300_B}};
  problem.profile.layers.assign(static_cast<std::size_t>(layers), layer);
  return problem;
}

RandomHarmony random_harmony(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto upto = [&](int most) { return 1 + static_cast<int>(random() % std::uint64_t(most)); };
  const auto mode = upto(2) == 1 ? HarmonyMode::pipeline : HarmonyMode::data_parallel;
  const int gpus = upto(4);
  const int layers = upto(8);
  const int samples = upto(12);  // of one run through the packs
  RandomHarmony result;
  HarmonyProblem& problem = result.problem;
  problem =
      round_harmony(mode, layers, gpus, mode == HarmonyMode::pipeline ? samples : samples * gpus);
  problem.server.peer = 10 * upto(50);
  problem.server.messages = 10 * upto(50);
  for (HarmonyGpu& gpu : problem.server.gpus) {
    gpu.swap_in = 10 * upto(50);
    gpu.swap_out = 10 * upto(50);
  }
  problem.profile.forward_sizes = problem.profile.backward_sizes = {1, 12};
  for (HarmonyLayer& layer : problem.profile.layers) {
    const double forward = 0.1 * upto(20);
    const double backward = forward + 0.1 * upto(40);
    layer.input_per_sample = upto(100);
    layer.weights = layer.gradients = {upto(1000)};
    layer.buffers = {upto(10)};
    layer.update = from_seconds(0.1 * upto(50));
    layer.forward.time = {from_seconds(forward), from_seconds(forward * upto(12))};
    layer.backward.time = {from_seconds(backward),
                           layer.forward.time[1] + from_seconds(backward * upto(12))};
  }
  HarmonyTuple& tuple = result.tuple;
  tuple.backward_batch = upto(samples);
  tuple.forward_batch = tuple.backward_batch + upto(samples - tuple.backward_batch + 1) - 1;
  tuple.backward = random_packs(layers, random);
  tuple.forward = random_packs(tuple.backward.back().first, random);
  return result;
}

}  // namespace ferry
