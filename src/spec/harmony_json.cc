// Reads Harmony's profiles from JSON, format harmony-profile-1.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "spec/document.h"
#include "spec/harmony_profile.h"

namespace ferry {
namespace {

using Json = nlohmann::json;

constexpr const char* kFormat = "harmony-profile-1";

// Larger numbers are slips of the pen, and with these bounds no sum or product of them overflows.
constexpr std::size_t kMostLayers = 10'000;
constexpr std::int64_t kMostSamples = 10'000;
constexpr std::int64_t kMostBytes = 100'000'000'000'000;      // of a tensor or a peak
constexpr std::int64_t kMostBytesPerSample = 10'000'000'000;  // times samples: 1e14
constexpr double kLongestSeconds = 1e6;

/// One JSON object with typed access; `where` starts every message.
class Section {
 public:
  Section(const Json& json, std::string where) : json_(&json), where_(std::move(where)) {
    if (!json.is_object()) refuse("must be an object; found " + shown(json));
  }

  [[noreturn]] void refuse(const std::string& problem) const {
    throw UserError(where_ + ": " + problem);
  }
  bool has(const std::string& key) const { return json_->contains(key); }

  const Json& list(const std::string& key) const {
    const Json& found = get(key, "a list");
    if (!found.is_array()) refuse_value(key, "a list", found);
    return found;
  }
  std::string text(const std::string& key) const {
    const Json& found = get(key, "a text");
    if (!found.is_string()) refuse_value(key, "a text", found);
    return found.get<std::string>();
  }
  std::int64_t whole(const std::string& key, std::int64_t least, std::int64_t most) const {
    const Json& found = get(key, "a whole number");
    return whole(key, found, least, most);
  }
  double seconds(const std::string& key) const { return seconds(key, get(key, "seconds")); }

  std::vector<std::int64_t> wholes(const std::string& key, std::int64_t least,
                                   std::int64_t most) const {
    std::vector<std::int64_t> result;
    for (const Json& item : list(key)) result.push_back(whole(key, item, least, most));
    return result;
  }
  std::vector<double> times(const std::string& key) const {
    std::vector<double> result;
    for (const Json& item : list(key)) result.push_back(seconds(key, item));
    return result;
  }

 private:
  [[noreturn]] void refuse_value(const std::string& key, const std::string& expected,
                                 const Json& found) const {
    refuse("'" + key + "' must be " + expected + "; found " + shown(found));
  }
  const Json& get(const std::string& key, const std::string& expected) const {
    if (!has(key)) refuse("'" + key + "' is missing; expected " + expected);
    return (*json_)[key];
  }
  std::int64_t whole(const std::string& key, const Json& found, std::int64_t least,
                     std::int64_t most) const {
    const bool fits = found.is_number_integer() && found >= least && found <= most;
    if (!fits) {
      refuse_value(key,
                   "a whole number from " + std::to_string(least) + " to " + std::to_string(most),
                   found);
    }
    return found.get<std::int64_t>();
  }
  double seconds(const std::string& key, const Json& found) const {
    const bool fits = found.is_number() && found >= 0.0 && found <= kLongestSeconds;
    if (!fits) refuse_value(key, "seconds, from 0 to 1e6", found);
    return found.get<double>();
  }

  const Json* json_;  // never null; the parsed file outlives its sections
  std::string where_;
};

std::vector<int> read_sizes(const Section& top, const std::string& key) {
  std::vector<int> sizes;
  for (const std::int64_t size : top.wholes(key, 1, kMostSamples)) {
    if (!sizes.empty() && size <= sizes.back()) {
      top.refuse("'" + key + "' must ascend; found " + std::to_string(size) + " after " +
                 std::to_string(sizes.back()));
    }
    sizes.push_back(static_cast<int>(size));
  }
  if (sizes.empty()) top.refuse("'" + key + "' is empty; expected at least one size");
  return sizes;
}

HarmonyCurve read_curve(const Section& layer, const std::string& pass, std::size_t sizes) {
  const auto check_count = [&](const std::string& key, std::size_t count) {
    if (count == sizes) return;
    layer.refuse("'" + key + "' has " + std::to_string(count) + " entries; expected " +
                 std::to_string(sizes) + ", one per size of '" + pass + "_microbatch_sizes'");
  };
  HarmonyCurve curve;
  for (const double time : layer.times(pass + "_time_s")) curve.time.push_back(from_seconds(time));
  for (const std::int64_t peak : layer.wholes(pass + "_memory_bytes", 0, kMostBytes)) {
    curve.memory.push_back({peak});
  }
  check_count(pass + "_time_s", curve.time.size());
  check_count(pass + "_memory_bytes", curve.memory.size());
  return curve;
}

HarmonyLayer read_layer(const Section& section, const HarmonyProfile& profile) {
  const auto id = static_cast<std::int64_t>(profile.layers.size());
  if (const std::int64_t found = section.whole("id", 0, kMostLayers); found != id) {
    section.refuse("'id' is " + std::to_string(found) + "; expected " + std::to_string(id) +
                   ", the layer's place in the list");
  }
  HarmonyLayer layer;
  layer.name = section.text("name");
  layer.input_per_sample =
      static_cast<double>(section.whole("x_bytes_per_sample", 0, kMostBytesPerSample));
  layer.weights = {section.whole("w_bytes", 0, kMostBytes)};
  layer.buffers = {section.whole("b_bytes", 0, kMostBytes)};
  layer.optimizer = {section.whole("k_bytes", 0, kMostBytes)};
  layer.gradients = layer.weights;
  layer.update = from_seconds(section.seconds("update_cpu_s"));
  if (section.has("same_as")) {
    const std::int64_t other = section.whole("same_as", 0, kMostLayers);
    if (other >= id) {
      section.refuse("'same_as' must name an earlier layer; found " + std::to_string(other));
    }
    layer.forward = profile.layers[static_cast<std::size_t>(other)].forward;
    layer.backward = profile.layers[static_cast<std::size_t>(other)].backward;
    return layer;
  }
  layer.forward = read_curve(section, "fwd", profile.forward_sizes.size());
  layer.backward = read_curve(section, "bwd", profile.backward_sizes.size());
  return layer;
}

}  // namespace

bool looks_like_harmony_profile(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string::npos && text[first] == '{';
}

HarmonyProfile read_harmony_profile(const std::string& path) {
  return parse_harmony_profile(read_text_file(path), path);
}

HarmonyProfile parse_harmony_profile(const std::string& text, const std::string& source) {
  const Json json = parse_json(text, source);
  const Section top(json, source);
  if (const std::string format = top.text("format"); format != kFormat) {
    top.refuse("format '" + format + "' is not known; expected " + kFormat);
  }
  HarmonyProfile profile;
  profile.name = top.text("model");
  profile.source = source;
  profile.text = text;
  profile.forward_sizes = read_sizes(top, "fwd_microbatch_sizes");
  profile.backward_sizes = read_sizes(top, "bwd_microbatch_sizes");
  const Json& layers = top.list("layers");
  if (layers.empty() || layers.size() > kMostLayers) {
    top.refuse("'layers' must have 1 to 10000 entries; found " + std::to_string(layers.size()));
  }
  const std::int64_t count = top.whole("layer_count", 1, kMostLayers);
  if (static_cast<std::size_t>(count) != layers.size()) {
    top.refuse("'layer_count' is " + std::to_string(count) + ", but 'layers' has " +
               std::to_string(layers.size()) + " entries");
  }
  for (const Json& layer : layers) {
    const std::string where = source + ": layers[" + std::to_string(profile.layers.size()) + "]";
    profile.layers.push_back(read_layer(Section(layer, where), profile));
  }
  return profile;
}

}  // namespace ferry
