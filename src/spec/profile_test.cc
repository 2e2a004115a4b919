#include "spec/profile.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/error.h"

namespace ferry {
namespace {

// Written by hand, without a model: papers' numbers, whatever they are.
constexpr const char* kByHand = R"(name: six layers
blocks:
  - {key: layer, count: 5, forward: 1 s, backward: 3 s, weights: 2 GB, forward_workspace: 0.5 GB,
     backward_workspace: 1.5 GB, activation: 0.2 GB, activation_gradient: 0.2 GB}
  - {key: last, forward: 2 s, backward: 6 s, weights: 3 GB, activation: 0.2 GB}
)";

constexpr const char* kMeasured = R"(name: nano on cpu2
micro_batch_size: 2
sequence: 256
measured: true
update_rate: 2.31 G parameters/s
up: 9.87 GB/s
task_overhead: 20.25 us
blocks:
  - key: embedding v512 h64
    forward: 12.5 ms
    backward: 0.333 us
    weights: 3 MiB
    gradients: 6 MiB
    parameters: 1572864
  - {key: "attention: h64 #1", forward: 1 ms, backward: 2 ms}
chain: [embedding v512 h64, "attention: h64 #1", "attention: h64 #1"]
)";

std::string error_of(const std::string& text) {
  try {
    parse_profile(text, "p.yaml");
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Profile, AHandWrittenProfileNeedsNoModel) {
  const Profile profile = parse_profile(kByHand, "p.yaml");
  EXPECT_EQ(profile.chain, (std::vector<int>{0, 0, 0, 0, 0, 1}));
  EXPECT_EQ(profile.blocks[0].backward, from_seconds(3));
  EXPECT_EQ(profile.blocks[0].activation.count, 200'000'000);
  EXPECT_EQ(profile.blocks[1].activation_gradient, 0_B);
  EXPECT_FALSE(profile.measured);
  // What a backward takes that goes on from what was kept, where nobody says so.
  EXPECT_EQ(profile.blocks[0].saved_backward_workspace, profile.blocks[0].backward_workspace);
}

TEST(Profile, EveryKeyOfTheFileArrives) {
  const Profile profile = parse_profile(kMeasured, "p.yaml");
  EXPECT_EQ(profile.micro_batch_size, 2);
  EXPECT_EQ(profile.sequence, 256);
  EXPECT_TRUE(profile.measured);
  EXPECT_EQ(profile.update_rate, 2.31e9);
  EXPECT_EQ(profile.up.bytes_per_second, 9.87e9);
  EXPECT_FALSE(profile.down.limited());
  EXPECT_EQ(profile.task_overhead, Micros{20.25});
  EXPECT_EQ(profile.chain, (std::vector<int>{0, 1, 1}));
  const BlockProfile* block = find_block(profile, "embedding v512 h64");
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(block->forward, Micros{12500});
  EXPECT_EQ(block->backward, Micros{0.333});
  EXPECT_EQ(block->gradients, 6_MiB);
  EXPECT_EQ(block->parameters, 1572864);
  EXPECT_EQ(find_block(profile, "mlp"), nullptr);
}

TEST(Profile, AWrittenProfileReadsBackEqual) {
  Profile profile = parse_profile(kMeasured, "p.yaml");
  profile.blocks[0].forward = Micros{1e6 / 3};
  profile.blocks[0].backward = Micros{1e-7};
  profile.down.bytes_per_second = 1e10 / 7;
  for (const Profile& each : {profile, parse_profile(kByHand, "p.yaml")}) {
    EXPECT_EQ(parse_profile(to_yaml(each), "again"), each) << to_yaml(each);
  }
}

TEST(Profile, OfDevicesThatDifferTheSlowestCounts) {
  Profile one = parse_profile(kMeasured, "one.yaml"), other = one;
  one.blocks[0].saved = other.blocks[0].saved = 8_MiB;
  one.blocks[1].saved = 4_MiB;  // the other device has no room to keep it
  other.blocks[0].forward = Micros{20'000};
  other.blocks[1].backward = Micros{1};
  other.blocks[1].backward_workspace = 5_MiB;
  other.update_rate = 1e9;
  other.up = {};  // unknown there
  other.task_overhead = Micros{30};
  const Profile both = of_slowest(one, other);
  EXPECT_EQ(both.blocks[0].forward, Micros{20'000});
  EXPECT_EQ(both.blocks[0].saved, 8_MiB);
  EXPECT_EQ(both.blocks[1].backward, Micros{2'000});
  EXPECT_EQ(both.blocks[1].backward_workspace, 5_MiB);
  EXPECT_EQ(both.blocks[1].saved, 0_B);
  EXPECT_EQ(both.update_rate, 1e9);
  EXPECT_EQ(both.up, one.up);
  EXPECT_EQ(both.task_overhead, Micros{30});
  EXPECT_EQ(both.chain, one.chain);
}

TEST(Profile, ErrorsNameFileAndLine) {
  EXPECT_EQ(error_of("name: x\nblocks:\n  - {key: a, forward: 1, backward: 2 s}\n"),
            "p.yaml:3: 'forward' must be a time from 0 to 1.0e+08 s with a unit (ns, us, ms, s); "
            "found '1'");
  EXPECT_EQ(error_of("name: x\nblocks:\n  - {key: a, backward: 2 s}\n"),
            "p.yaml:3: 'forward' is missing; expected a time from 0 to 1.0e+08 s with a unit (ns, "
            "us, ms, s)");
  const std::string a = "  - {key: a, forward: 1 s, backward: 1 s}\n";
  EXPECT_EQ(error_of("name: x\nblocks:\n" + a + a), "p.yaml:4: a block 'a' is given above already");
  EXPECT_EQ(error_of("name: x\nblocks:\n" + a + "chain: [a,\n b]\n"),
            "p.yaml:5: 'chain' must be a list of keys of 'blocks'; found 'b'");
  EXPECT_EQ(
      error_of("name: x\nchain: [a]\nblocks: [{key: a, count: 2, forward: 1 s, backward: 1 s}]"),
      "p.yaml:3: 'count' and 'chain' exclude each other; expected one of them");
  EXPECT_EQ(error_of("name: x\nblocks: []\n"), "p.yaml:2: 'blocks' is empty; expected one");
}

TEST(Profile, TheDocumentedKeysAreTheOnesThatAreRead) {
  std::ifstream file(FERRY_SOURCE_DIR "/docs/formats/profile.md");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_NE(text.str().find(profile_reference()), std::string::npos)
      << "docs/formats/profile.md must hold these tables:\n"
      << profile_reference();
}

}  // namespace
}  // namespace ferry
