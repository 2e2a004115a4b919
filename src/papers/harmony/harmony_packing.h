// Harmony's packing methods: a chain of layers as consecutive packs that fit a GPU. Harmony,
// layer_packing.py. A pack is what other papers call a stage.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/units.h"
#include "spec/harmony_profile.h"

namespace ferry {

/// Layers [first, end).
struct HarmonyPack {
  int first = 0;
  int end = 0;

  bool operator==(const HarmonyPack&) const = default;
};

/// Ascending, none empty, each beginning where the one before ends.
using HarmonyPacks = std::vector<HarmonyPack>;

/// In the order in which a search tries them.
enum class PackingMethod { time, memory, greedy, reuse };

/// "time", "memory", "greedy", "reuse".
std::string to_string(PackingMethod method);

/// Packs of so many layers each, from layer 0.
HarmonyPacks packs_of(std::span<const int> counts);

/// Throws UserError unless `packs` cover layers [0, end) and each has one; `pass` names them.
void check_cover(const HarmonyPacks& packs, int end, const std::string& pass);

/// What a pack takes of a GPU's memory: the sum of its layers' peaks, their inputs but the first's
/// left out, since the layer before holds them as its output.
Bytes pack_memory(std::span<const HarmonyCost> layers, HarmonyPack pack);

/// The packs of all `layers` that `method` (none but reuse) gives, or none.
///  time, memory: for S = ceil(memory of all / capacity), S + 1, ...: cut k of S - 1 stands before
///    the first layer whose prefix sum is at least k total / S (of time; of memory, with the step
///    total / S rounded down); the first S without an empty pack in which every pack fits.
///  greedy: from the last layer backward, each pack as long as it is below the capacity.
std::optional<HarmonyPacks> pack_layers(PackingMethod method, std::span<const HarmonyCost> layers,
                                        Bytes capacity);

/// PackingMethod::reuse, of forward: the backward packs without the last, if each is below the
/// capacity with the costs `layers`.
std::optional<HarmonyPacks> reuse_packs(const HarmonyPacks& backward,
                                        std::span<const HarmonyCost> layers, Bytes capacity);

}  // namespace ferry
