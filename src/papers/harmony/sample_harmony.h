// Problems for the tests of Harmony's programs.
#pragma once

#include <cstdint>

#include "papers/harmony/harmony_program.h"

namespace ferry {

/// Round numbers: per sample a layer takes 1 s forward and 3 s backward and has an input of 10
/// bytes; weights of 100 bytes, updated in 5 s; peaks of 300 bytes. Sizes 1 to 4. Swaps and peers
/// move 100 bytes per second, messages 200.
HarmonyProblem round_harmony(HarmonyMode mode, int layers, int gpus, int minibatch);

/// Any small profile, server, tuple and mode, of a seed. The tuple belongs to the problem.
struct RandomHarmony {
  HarmonyProblem problem;
  HarmonyTuple tuple;
};
RandomHarmony random_harmony(std::uint64_t seed);

}  // namespace ferry
