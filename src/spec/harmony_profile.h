// Harmony's profiles: what every layer of a model costs on one GPU for a range of micro-batch
// sizes, as measured by Harmony's profiler and written as JSON ("format": "harmony-profile-1").
//
// Unlike spec/profile.h a layer has times and peaks for many sizes, for forward and backward apart;
// a size between two measured ones is interpolated linearly, as Harmony does.
#pragma once

#include <string>
#include <vector>

#include "base/units.h"
#include "spec/profile.h"

namespace ferry {

enum class HarmonyPass { forward, backward };

/// Times and peaks of one layer, one entry per measured size of the pass.
struct HarmonyCurve {
  std::vector<Micros> time;   // backward: forward with gradients, then backward
  std::vector<Bytes> memory;  // peak of the layer alone: weights, input, inner tensors, output
};

struct HarmonyLayer {
  std::string name;
  double input_per_sample = 0;  // X, bytes: all that enters the layer
  Bytes weights;                // W
  Bytes buffers;                // B, not trained
  Bytes gradients;              // dW; in the JSON form those of W
  Bytes optimizer;              // K
  Micros update;                // of its weights, on the host
  HarmonyCurve forward;
  HarmonyCurve backward;
};

/// A chain; the last layer is the loss. Sizes ascend; curves have an entry for each.
struct HarmonyProfile {
  std::string name;
  std::string source;  // the file, for messages
  std::string text;    // as it was read: equal texts are equal profiles
  std::vector<int> forward_sizes;
  std::vector<int> backward_sizes;
  std::vector<HarmonyLayer> layers;
};

/// A layer at one micro-batch size.
struct HarmonyCost {
  Micros time;
  Bytes memory;
  Bytes input;  // X(U, layer)
};

/// True when `samples` lies between the least and the largest size that `pass` was measured with.
bool is_measured(const HarmonyProfile& profile, HarmonyPass pass, int samples);

/// All layers at `samples`. Between two measured sizes linear; memory is then cut to whole bytes.
/// Throws UserError when it is outside the measured range.
std::vector<HarmonyCost> costs_at(const HarmonyProfile& profile, HarmonyPass pass, int samples);

/// X(U, layer); 0 behind the last layer.
Bytes input_bytes(const HarmonyProfile& profile, int layer, int samples);

/// True when `text` is JSON rather than YAML of spec/profile.h: it begins with '{'.
bool looks_like_harmony_profile(const std::string& text);

/// Reads a profile. Throws UserError that names the file, where in it, what was expected and found.
HarmonyProfile read_harmony_profile(const std::string& path);

/// The same from text; `source` stands for the file in messages.
HarmonyProfile parse_harmony_profile(const std::string& text, const std::string& source);

/// The profile at one micro-batch size, for every other strategy. Equal layers share a block; what
/// a peak holds beside weights, gradients and the layer's input and output is its workspace.
/// Throws UserError when the size is outside the measured range.
Profile profile_at(const HarmonyProfile& profile, int samples);

/// An ordinary profile as one of a single size. Boundary gradients have the bytes of activations,
/// the first layer's input has none; a layer's peak is its weights (backward: and gradients),
/// boundaries and workspace. `update_rate` in parameters per second where the profile has none; 0:
/// updates take no time.
HarmonyProfile harmony_profile_of(const Profile& profile, double update_rate);

}  // namespace ferry
