#include "papers/harmony/harmony_packing.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/error.h"

namespace ferry {
namespace {

// mem: what a layer adds to a pack that it does not begin.
Bytes inner_memory(const HarmonyCost& layer) { return layer.memory - layer.input; }

// Cut k stands before the first layer whose prefix sum reaches k * step; or none when that makes
// an empty pack.
template <typename Amount>
std::optional<HarmonyPacks> cut(const std::vector<Amount>& prefix_sums, int packs, auto target) {
  HarmonyPacks result;
  int first = 0;
  for (int k = 1; k <= packs; ++k) {
    int end = static_cast<int>(prefix_sums.size());
    if (k < packs) {
      const auto at = std::lower_bound(prefix_sums.begin(), prefix_sums.end(), target(k, packs));
      end = static_cast<int>(at - prefix_sums.begin());
    }
    if (end <= first) return std::nullopt;
    result.push_back({first, end});
    first = end;
  }
  return result;
}

std::optional<HarmonyPacks> pack_evenly(PackingMethod method, std::span<const HarmonyCost> layers,
                                        Bytes capacity) {
  std::vector<double> time;
  std::vector<std::int64_t> memory;
  for (const HarmonyCost& layer : layers) {
    time.push_back((time.empty() ? 0 : time.back()) + layer.time.count);
    memory.push_back((memory.empty() ? 0 : memory.back()) + inner_memory(layer).count);
  }
  const auto fits = [&](HarmonyPack pack) { return pack_memory(layers, pack) <= capacity; };
  const std::int64_t least = (memory.back() + capacity.count - 1) / capacity.count;
  const int count = static_cast<int>(layers.size());
  for (int packs = static_cast<int>(std::clamp<std::int64_t>(least, 1, count + 1)); packs <= count;
       ++packs) {
    const auto result =
        method == PackingMethod::time
            ? cut(time, packs, [&](int k, int all) { return k * time.back() / all; })
            : cut(memory, packs, [&](int k, int all) { return k * (memory.back() / all); });
    if (result && std::all_of(result->begin(), result->end(), fits)) return result;
  }
  return std::nullopt;
}

std::optional<HarmonyPacks> pack_greedily(std::span<const HarmonyCost> layers, Bytes capacity) {
  HarmonyPacks result;
  int end = static_cast<int>(layers.size());
  while (end > 0) {
    int first = end;
    while (first > 0 && pack_memory(layers, {first - 1, end}) < capacity) --first;
    if (first == end) return std::nullopt;
    result.push_back({first, end});
    end = first;
  }
  std::reverse(result.begin(), result.end());
  return result;
}

}  // namespace

std::string to_string(PackingMethod method) {
  switch (method) {
    case PackingMethod::time:
      return "time";
    case PackingMethod::memory:
      return "memory";
    case PackingMethod::greedy:
      return "greedy";
    case PackingMethod::reuse:
      return "reuse";
  }
  FERRY_UNREACHABLE("packing method");
}

HarmonyPacks packs_of(std::span<const int> counts) {
  HarmonyPacks packs;
  int first = 0;
  for (const int count : counts) {
    packs.push_back({first, first + count});
    first += count;
  }
  return packs;
}

void check_cover(const HarmonyPacks& packs, int end, const std::string& pass) {
  int covered = 0;
  for (const HarmonyPack pack : packs) {
    if (pack.first != covered || pack.end <= pack.first) {
      throw UserError("harmony: a " + pass + " pack begins at layer " + std::to_string(pack.first) +
                      "; expected " + std::to_string(covered) + " and at least one layer");
    }
    covered = pack.end;
  }
  if (covered == end) return;
  throw UserError("harmony: the " + pass + " packs cover " + std::to_string(covered) +
                  " layers; expected " + std::to_string(end) +
                  (pass == "forward" ? ", those before the last backward pack" : ""));
}

Bytes pack_memory(std::span<const HarmonyCost> layers, HarmonyPack pack) {
  Bytes sum = layers[pack.first].input;
  for (int l = pack.first; l < pack.end; ++l) sum += inner_memory(layers[l]);
  return sum;
}

std::optional<HarmonyPacks> pack_layers(PackingMethod method, std::span<const HarmonyCost> layers,
                                        Bytes capacity) {
  FERRY_CHECK(method != PackingMethod::reuse, "reuse_packs() has it");
  FERRY_CHECK(!layers.empty() && capacity > Bytes{}, "nothing to pack, or nothing to pack into");
  return method == PackingMethod::greedy ? pack_greedily(layers, capacity)
                                         : pack_evenly(method, layers, capacity);
}

std::optional<HarmonyPacks> reuse_packs(const HarmonyPacks& backward,
                                        std::span<const HarmonyCost> layers, Bytes capacity) {
  const HarmonyPacks packs(backward.begin(), backward.end() - 1);
  const bool fit = std::all_of(packs.begin(), packs.end(), [&](HarmonyPack pack) {
    return pack_memory(layers, pack) < capacity;
  });
  return fit ? std::optional(packs) : std::nullopt;
}

}  // namespace ferry
