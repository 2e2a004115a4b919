#include "spec/harmony_profile.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/error.h"

namespace ferry {
namespace {

const std::filesystem::path kFolder = FERRY_SOURCE_DIR "/tests/data/harmony_profiles";

// Two layers and a loss; the second layer has the curves of the first.
constexpr const char* kSmall = R"({
  "format": "harmony-profile-1", "model": "small", "layer_count": 3,
  "fwd_microbatch_sizes": [1, 4], "bwd_microbatch_sizes": [1, 2],
  "layers": [
    {"id": 0, "name": "Linear", "x_bytes_per_sample": 100, "w_bytes": 4000, "b_bytes": 8,
     "k_bytes": 8000, "update_cpu_s": 0.5, "fwd_time_s": [1, 2.5], "bwd_time_s": [3, 4],
     "fwd_memory_bytes": [5000, 5801], "bwd_memory_bytes": [9000, 9400]},
    {"id": 1, "name": "Linear", "x_bytes_per_sample": 50, "w_bytes": 4000, "b_bytes": 8,
     "k_bytes": 8000, "update_cpu_s": 0.25, "same_as": 0},
    {"id": 2, "name": "Loss", "x_bytes_per_sample": 4, "w_bytes": 0, "b_bytes": 0, "k_bytes": 0,
     "update_cpu_s": 0, "fwd_time_s": [0, 0], "bwd_time_s": [0.125, 0.125],
     "fwd_memory_bytes": [4, 16], "bwd_memory_bytes": [8, 16]}
  ]})";

// The small profile with one part written otherwise.
std::string changed(const std::string& from, const std::string& to) {
  std::string text = kSmall;
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string error_of(const std::string& text) {
  try {
    parse_harmony_profile(text, "small.json");
  } catch (const UserError& error) {
    return error.what();
  }
  return "none";
}

TEST(HarmonyProfile, LayersMayHaveTheCurvesOfAnother) {
  const HarmonyProfile profile = parse_harmony_profile(kSmall, "small.json");
  EXPECT_EQ(profile.name, "small");
  ASSERT_EQ(profile.layers.size(), 3);
  EXPECT_EQ(profile.layers[1].forward.time, profile.layers[0].forward.time);
  EXPECT_EQ(profile.layers[1].backward.memory, profile.layers[0].backward.memory);
  EXPECT_EQ(profile.layers[1].update, from_seconds(0.25));
  EXPECT_EQ(profile.layers[1].weights, 4000_B);
  EXPECT_EQ(profile.layers[1].gradients, 4000_B);
  EXPECT_EQ(profile.layers[1].buffers, 8_B);
}

TEST(HarmonyProfile, SizesBetweenMeasuredOnesAreOnALineAndBytesAreCut) {
  const HarmonyProfile profile = parse_harmony_profile(kSmall, "small.json");
  const auto at_two = costs_at(profile, HarmonyPass::forward, 2);
  EXPECT_DOUBLE_EQ(at_two[0].time.seconds(), 1.5);
  EXPECT_EQ(at_two[0].memory, 5267_B);  // 5000 + 801 / 3
  EXPECT_EQ(at_two[0].input, 200_B);
  EXPECT_EQ(costs_at(profile, HarmonyPass::forward, 3)[0].memory, 5534_B);
  EXPECT_EQ(costs_at(profile, HarmonyPass::forward, 4)[0].memory, 5801_B);
  EXPECT_EQ(costs_at(profile, HarmonyPass::backward, 2)[0].time, from_seconds(4));
  EXPECT_EQ(input_bytes(profile, 1, 3), 150_B);
  EXPECT_EQ(input_bytes(profile, 3, 3), 0_B);
}

TEST(HarmonyProfile, SizesOutsideTheMeasuredRangeAreRefused) {
  const HarmonyProfile profile = parse_harmony_profile(kSmall, "small.json");
  EXPECT_TRUE(is_measured(profile, HarmonyPass::forward, 4));
  EXPECT_FALSE(is_measured(profile, HarmonyPass::backward, 3));
  EXPECT_FALSE(is_measured(profile, HarmonyPass::backward, 0));
  try {
    costs_at(profile, HarmonyPass::backward, 3);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "small.json: backward of 3 samples was not measured; expected a micro-batch of 1 "
                 "to 2");
  }
}

TEST(HarmonyProfile, ErrorsNameThePlaceAndWhatIsExpected) {
  EXPECT_EQ(error_of("{\"format\": \n!}").substr(0, 48),
            "small.json: not JSON: parse error at line 2, col");
  EXPECT_EQ(error_of(changed("profile-1", "profile-2")),
            "small.json: format 'harmony-profile-2' is not known; expected harmony-profile-1");
  EXPECT_EQ(error_of(changed("\"layer_count\": 3", "\"layer_count\": 4")),
            "small.json: 'layer_count' is 4, but 'layers' has 3 entries");
  EXPECT_EQ(error_of(changed("[1, 4]", "[4, 1]")),
            "small.json: 'fwd_microbatch_sizes' must ascend; found 1 after 4");
  EXPECT_EQ(error_of(changed("[1, 2]", "[]")),
            "small.json: 'bwd_microbatch_sizes' is empty; expected at least one size");
  EXPECT_EQ(error_of(changed("\"id\": 1", "\"id\": 2")),
            "small.json: layers[1]: 'id' is 2; expected 1, the layer's place in the list");
  EXPECT_EQ(error_of(changed("\"same_as\": 0", "\"same_as\": 1")),
            "small.json: layers[1]: 'same_as' must name an earlier layer; found 1");
  EXPECT_EQ(error_of(changed("[1, 2.5]", "[1]")),
            "small.json: layers[0]: 'fwd_time_s' has 1 entries; expected 2, one per size of "
            "'fwd_microbatch_sizes'");
  EXPECT_EQ(error_of(changed("[3, 4]", "[3, -4]")),
            "small.json: layers[0]: 'bwd_time_s' must be seconds, from 0 to 1e6; found -4");
  EXPECT_EQ(error_of(changed("\"w_bytes\": 4000", "\"w_bytes\": 4e3")),
            "small.json: layers[0]: 'w_bytes' must be a whole number from 0 to 100000000000000; "
            "found 4000.0");
  EXPECT_EQ(error_of(changed("\"k_bytes\": 8000,", "")),
            "small.json: layers[0]: 'k_bytes' is missing; expected a whole number");
  EXPECT_EQ(
      error_of(changed("\"w_bytes\": 4000", "\"w_bytes\": 18446744073709551615")).substr(0, 55),
      "small.json: layers[0]: 'w_bytes' must be a whole number");
  EXPECT_EQ(error_of("[]"), "small.json: must be an object; found []");
  EXPECT_THROW(read_harmony_profile("missing.json"), UserError);
}

TEST(HarmonyProfile, JsonIsToldFromYaml) {
  EXPECT_TRUE(looks_like_harmony_profile(kSmall));
  EXPECT_TRUE(looks_like_harmony_profile("\n  {}"));
  EXPECT_FALSE(looks_like_harmony_profile("name: six layers\n"));
  EXPECT_FALSE(looks_like_harmony_profile(""));
}

TEST(HarmonyProfile, AtOneSizeItIsAProfileForEveryStrategy) {
  const HarmonyProfile harmony = parse_harmony_profile(kSmall, "small.json");
  const Profile profile = profile_at(harmony, 2);
  EXPECT_EQ(profile.micro_batch_size, 2);
  ASSERT_EQ(profile.chain.size(), 3);
  const BlockProfile& first = profile.blocks[0];
  EXPECT_DOUBLE_EQ(first.forward.seconds(), 1.5);
  EXPECT_DOUBLE_EQ(first.backward.seconds(), 4);
  EXPECT_EQ(first.weights, 4008_B);
  EXPECT_EQ(first.gradients, 4000_B);
  EXPECT_EQ(first.activation, 100_B);
  EXPECT_EQ(first.activation_gradient, 200_B);
  EXPECT_EQ(first.forward_workspace, 959_B);    // 5267 - 4008 - 200 - 100
  EXPECT_EQ(first.backward_workspace, 1092_B);  // 9400 - 4008 - 4000 - 200 - 100
  EXPECT_EQ(first.parameters, 1000);
  EXPECT_DOUBLE_EQ(profile.update_rate, 2000 / 0.75);
  EXPECT_THROW(profile_at(harmony, 3), UserError);
}

TEST(HarmonyProfile, AnOrdinaryProfileHasOneSize) {
  Profile profile;
  profile.name = "by hand";
  profile.micro_batch_size = 4;
  profile.blocks = {{.key = "layer",
                     .forward = {10},
                     .backward = {30},
                     .weights = 1000_B,
                     .gradients = 2000_B,
                     .forward_workspace = 10_B,
                     .backward_workspace = 20_B,
                     .saved = {},
                     .saving_forward = {},
                     .saved_backward = {},
                     .saving_workspace = {},
                     .saved_backward_workspace = {},
                     .activation = 6_B,
                     .activation_gradient = 6_B,
                     .parameters = 500}};
  profile.chain = {0, 0};
  const HarmonyProfile harmony = harmony_profile_of(profile, 1e6);
  ASSERT_EQ(harmony.layers.size(), 2);
  EXPECT_FALSE(is_measured(harmony, HarmonyPass::forward, 1));
  const auto backward = costs_at(harmony, HarmonyPass::backward, 4);
  EXPECT_EQ(backward[0].memory, 3026_B);
  EXPECT_EQ(backward[0].input, 0_B);
  EXPECT_EQ(backward[1].input, 6_B);  // 1.5 bytes of each of four samples
  EXPECT_EQ(backward[1].memory, 3032_B);
  EXPECT_EQ(backward[1].time, Micros{30});
  EXPECT_DOUBLE_EQ(harmony.layers[0].update.count, 500);
  EXPECT_EQ(harmony_profile_of(profile, 0).layers[0].update, Micros{});
}

// The totals that are printed with the profiles in their repository.
TEST(HarmonyProfile, TotalsOfThePublishedProfilesAreAsPrinted) {
  struct Totals {
    const char* file;
    std::size_t layers;
    double weights_gb, buffers_gb, optimizer_gb;
    std::size_t forward_sizes;
    int forward_most;
    std::size_t backward_sizes;
    int backward_most;
    double forward_1, backward_1, forward_4, backward_4, update;
  };
  constexpr Totals kTotals[] = {
      {"bert96.json", 100, 4.968, 0, 9.937, 243, 243, 78, 78, 0.392273, 1.649097, 1.143493,
       3.439666, 2.419382},
      {"bert_large.json", 28, 1.341, 0, 2.681, 243, 243, 78, 78, 0.101922, 0.415706, 0.292386,
       0.861664, 0.653203},
      {"vgg416.json", 417, 2.312, 0, 2.312, 72, 285, 44, 173, 0.245993, 1.018647, 0.589046,
       2.007117, 0.230434},
  };
  for (const Totals& row : kTotals) {
    SCOPED_TRACE(row.file);
    const HarmonyProfile profile = read_harmony_profile((kFolder / row.file).string());
    EXPECT_EQ(profile.layers.size(), row.layers);
    EXPECT_EQ(profile.forward_sizes.size(), row.forward_sizes);
    EXPECT_EQ(profile.forward_sizes.back(), row.forward_most);
    EXPECT_EQ(profile.backward_sizes.size(), row.backward_sizes);
    EXPECT_EQ(profile.backward_sizes.back(), row.backward_most);
    Bytes weights, buffers, optimizer;
    Micros update;
    for (const HarmonyLayer& layer : profile.layers) {
      weights += layer.weights;
      buffers += layer.buffers;
      optimizer += layer.optimizer;
      update += layer.update;
    }
    const auto gigabytes = [](Bytes bytes) { return static_cast<double>(bytes.count) * 1e-9; };
    EXPECT_NEAR(gigabytes(weights), row.weights_gb, 0.5e-3);
    EXPECT_NEAR(gigabytes(buffers), row.buffers_gb, 0.5e-3);
    EXPECT_NEAR(gigabytes(optimizer), row.optimizer_gb, 0.5e-3);
    EXPECT_NEAR(update.seconds(), row.update, 0.5e-6);
    const auto total = [&](HarmonyPass pass, int samples) {
      Micros sum;
      for (const HarmonyCost& cost : costs_at(profile, pass, samples)) sum += cost.time;
      return sum.seconds();
    };
    EXPECT_NEAR(total(HarmonyPass::forward, 1), row.forward_1, 0.6e-6);
    EXPECT_NEAR(total(HarmonyPass::backward, 1), row.backward_1, 0.6e-6);
    EXPECT_NEAR(total(HarmonyPass::forward, 4), row.forward_4, 0.6e-6);
    EXPECT_NEAR(total(HarmonyPass::backward, 4), row.backward_4, 0.6e-6);
  }
}

}  // namespace
}  // namespace ferry
