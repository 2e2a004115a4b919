// Harmony's search for the four-tuple (U_f, P_f, U_b, P_b): every micro-batch size that divides
// the samples, packed by every method, timed by the simulator. Harmony, searcher.py.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "papers/harmony/harmony_packing.h"
#include "papers/harmony/harmony_program.h"

namespace ferry {

/// What is left open is searched. Forward packs are given with backward packs only.
struct HarmonySearch {
  std::vector<PackingMethod> forward_methods = {};
  std::vector<PackingMethod> backward_methods = {};  // reuse is none of them
  Bytes capacity = {};                               // of a GPU, for the packing methods
  bool prefetch = true;                              // the variant that candidates are ranked by
  int forward_batch = 0;                             // U_f; 0: searched
  int backward_batch = 0;
  std::optional<HarmonyPacks> forward = std::nullopt;
  std::optional<HarmonyPacks> backward = std::nullopt;
};

struct HarmonyCandidate {
  HarmonyTuple tuple;
  std::string packing;  // "reuse / time": forward by reuse, backward by time; "given"
  Micros step;
};

struct HarmonyFound {
  int candidates = 0;                    // before equal ones were removed
  std::vector<HarmonyCandidate> ranked;  // the fastest first, of equally fast ones the first found
};

/// Empty `ranked`: no method packs the layers into the capacity at any size. Throws UserError when
/// what is given does not belong to the problem.
HarmonyFound search_harmony(const HarmonyProblem& problem, const HarmonySearch& search);

/// U_b: what is given, or every size that divides the samples and that both passes were measured
/// with, since backward recomputes.
std::vector<int> backward_batches(const HarmonyProblem& problem, const HarmonySearch& search);

/// No four-tuple that the search may choose is faster: the least backward work of a step, recompute
/// included, spread evenly over the GPUs.
Micros harmony_lower_bound(const HarmonyProblem& problem, const HarmonySearch& search);

/// "time, reuse / time": methods of forward / of backward; without '/', of both. Throws UserError
/// for an unknown method and for a backward without one.
void set_methods(HarmonySearch& search, const std::string& text);

}  // namespace ferry
