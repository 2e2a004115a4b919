#include "spec/harmony_profile.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/error.h"

namespace ferry {
namespace {

std::size_t index(int id) { return static_cast<std::size_t>(id); }

const std::vector<int>& sizes_of(const HarmonyProfile& profile, HarmonyPass pass) {
  return pass == HarmonyPass::forward ? profile.forward_sizes : profile.backward_sizes;
}

std::string to_string(HarmonyPass pass) {
  return pass == HarmonyPass::forward ? "forward" : "backward";
}

// Where a size lies among the measured ones: `part` of the way from `below` to `above`.
struct Between {
  std::size_t below = 0;
  std::size_t above = 0;
  double part = 0;
};

Between find(const HarmonyProfile& profile, HarmonyPass pass, int samples) {
  const std::vector<int>& sizes = sizes_of(profile, pass);
  if (!is_measured(profile, pass, samples)) {
    throw UserError(profile.source + ": " + to_string(pass) + " of " + std::to_string(samples) +
                    " samples was not measured; expected a micro-batch of " +
                    std::to_string(sizes.front()) + " to " + std::to_string(sizes.back()));
  }
  const auto above = std::lower_bound(sizes.begin(), sizes.end(), samples);
  const auto at = static_cast<std::size_t>(above - sizes.begin());
  if (*above == samples) return {at, at, 0};
  const double step = *above - *(above - 1);
  return {at - 1, at, (samples - *(above - 1)) / step};
}

HarmonyCost cost_at(const HarmonyLayer& layer, const HarmonyCurve& curve, const Between& at,
                    int samples) {
  const Micros low = curve.time[at.below];
  const Bytes least = curve.memory[at.below];
  const auto rise = static_cast<double>((curve.memory[at.above] - least).count);
  HarmonyCost cost;
  cost.time = low + (curve.time[at.above] - low) * at.part;
  cost.memory = least + Bytes{static_cast<std::int64_t>(std::floor(rise * at.part))};
  cost.input = {std::llround(samples * layer.input_per_sample)};
  return cost;
}

Bytes at_least_nothing(Bytes bytes) { return std::max(bytes, Bytes{}); }

bool same_costs(BlockProfile a, const BlockProfile& b) {
  a.key = b.key;
  return a == b;
}

}  // namespace

bool is_measured(const HarmonyProfile& profile, HarmonyPass pass, int samples) {
  const std::vector<int>& sizes = sizes_of(profile, pass);
  return samples >= sizes.front() && samples <= sizes.back();
}

std::vector<HarmonyCost> costs_at(const HarmonyProfile& profile, HarmonyPass pass, int samples) {
  const Between at = find(profile, pass, samples);
  std::vector<HarmonyCost> costs;
  costs.reserve(profile.layers.size());
  for (const HarmonyLayer& layer : profile.layers) {
    const HarmonyCurve& curve = pass == HarmonyPass::forward ? layer.forward : layer.backward;
    costs.push_back(cost_at(layer, curve, at, samples));
  }
  return costs;
}

Bytes input_bytes(const HarmonyProfile& profile, int layer, int samples) {
  if (index(layer) >= profile.layers.size()) return {};
  return {std::llround(samples * profile.layers[index(layer)].input_per_sample)};
}

Profile profile_at(const HarmonyProfile& harmony, int samples) {
  const auto forward = costs_at(harmony, HarmonyPass::forward, samples);
  const auto backward = costs_at(harmony, HarmonyPass::backward, samples);
  Profile profile;
  profile.name = harmony.name;
  profile.micro_batch_size = samples;
  std::int64_t parameters = 0;
  double update_seconds = 0;
  for (std::size_t l = 0; l < harmony.layers.size(); ++l) {
    const HarmonyLayer& layer = harmony.layers[l];
    BlockProfile block;
    block.key = layer.name + " " + std::to_string(l);
    block.forward = forward[l].time;
    block.backward = backward[l].time;
    block.weights = layer.weights + layer.buffers;
    block.gradients = layer.gradients;
    block.activation = input_bytes(harmony, static_cast<int>(l) + 1, samples);
    block.activation_gradient = forward[l].input;
    const Bytes held = block.weights + forward[l].input + block.activation;
    block.forward_workspace = at_least_nothing(forward[l].memory - held);
    block.backward_workspace = at_least_nothing(backward[l].memory - held - block.gradients);
    block.parameters = layer.weights.count / 4;  // fp32
    parameters += block.parameters;
    update_seconds += layer.update.seconds();
    const auto same = std::find_if(profile.blocks.begin(), profile.blocks.end(),
                                   [&](const auto& each) { return same_costs(block, each); });
    profile.chain.push_back(static_cast<int>(same - profile.blocks.begin()));
    if (same == profile.blocks.end()) profile.blocks.push_back(block);
  }
  if (update_seconds > 0) profile.update_rate = static_cast<double>(parameters) / update_seconds;
  return profile;
}

HarmonyProfile harmony_profile_of(const Profile& profile, double update_rate) {
  const double rate = profile.update_rate > 0 ? profile.update_rate : update_rate;
  HarmonyProfile harmony;
  harmony.name = profile.name;
  harmony.source = "profile '" + profile.name + "'";
  harmony.forward_sizes = harmony.backward_sizes = {profile.micro_batch_size};
  Bytes input;  // of one micro-batch
  for (const int b : profile.chain) {
    const BlockProfile& block = profile.blocks[index(b)];
    HarmonyLayer layer;
    layer.name = block.key;
    layer.input_per_sample = static_cast<double>(input.count) / profile.micro_batch_size;
    layer.weights = block.weights;
    layer.gradients = block.gradients;
    if (rate > 0) layer.update = from_seconds(static_cast<double>(block.parameters) / rate);
    const Bytes held = block.weights + input + block.activation;
    layer.forward = {{block.forward}, {held + block.forward_workspace}};
    layer.backward = {{block.backward}, {held + block.gradients + block.backward_workspace}};
    harmony.layers.push_back(std::move(layer));
    input = block.activation;
  }
  return harmony;
}

}  // namespace ferry
