#include "spec/familiar_keys.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "base/error.h"
#include "spec/job.h"

namespace ferry {
namespace {

std::string refusal(const std::string& text, std::vector<std::string> overrides = {}) {
  try {
    parse_job(text, "job.yaml", overrides);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(FamiliarKeys, EveryOneStandsForAKeyThatJobsHave) {
  const std::string keys = job_reference();
  std::set<std::string_view> names;
  for (const FamiliarKey& known : familiar_keys()) {
    EXPECT_TRUE(names.insert(known.name).second) << known.name << " stands there twice";
    EXPECT_EQ(keys.find("\n| `" + std::string(known.name) + "` |"), std::string::npos)
        << known.name << " is a key of ferry's";
    EXPECT_FALSE(known.key.empty() && known.note.empty()) << known.name;
    if (known.key.empty()) continue;
    EXPECT_NE(keys.find("| `" + std::string(known.key) + "` |"), std::string::npos) << known.key;
  }
}

TEST(FamiliarKeys, AKeyOfAnotherTrainerIsAnsweredWithFerrys) {
  EXPECT_EQ(refusal("model: m\nlearning_rate: 1e-5\n"),
            "job.yaml:2: unknown key 'learning_rate'; ferry calls it 'optim.lr'");
  EXPECT_EQ(refusal("model: m\ntrain:\n  gradient_accumulation_steps: 8\n"),
            "job.yaml:3: unknown key 'gradient_accumulation_steps'; ferry calls it "
            "'train.micro_batches': of all devices together: multiply by the number of devices");
  EXPECT_EQ(refusal("model: m\nlora_r: 8\n"),
            "job.yaml:2: unknown key 'lora_r'; ferry trains all parameters, without LoRA; leave it "
            "out");
  EXPECT_EQ(refusal("model: m", {"output_dir=runs/x"}),
            "command line: 'output_dir=runs/x': unknown key 'output_dir'; ferry calls it 'out'");
  EXPECT_EQ(refusal("model: m", {"optim.learning_rate=1"}),
            "command line: 'optim.learning_rate=1': unknown key 'optim.learning_rate'; ferry calls "
            "it 'optim.lr'");
  EXPECT_EQ(refusal("model: m", {"training.max_steps=1"}),
            "command line: 'training.max_steps=1': unknown key 'training.max_steps'; ferry calls "
            "it 'train.steps': leave out -1");
}

TEST(FamiliarKeys, AKeyWithoutItsSectionIsAnsweredWithTheWholeName) {
  for (const auto& [name, key] : std::vector<std::pair<std::string, std::string>>{
           {"lr", "optim.lr"}, {"seed", "train.seed"}, {"packing", "data.packing"}}) {
    EXPECT_EQ(refusal("model: m", {name + "=1"}), "command line: '" + name + "=1': unknown key '" +
                                                      name + "'; did you mean '" + key + "'?");
    EXPECT_EQ(meant_key(name), key);
  }
  EXPECT_EQ(meant_key("max_grad_norm"), "optim.clip");
  EXPECT_EQ(meant_key("optim.lrr"), "optim.lr");
  EXPECT_EQ(meant_key("xyzzyxyzzy"), "");
}

TEST(FamiliarKeys, TheDocumentedOnesAreTheOnesThatAreAnswered) {
  std::ifstream file(FERRY_SOURCE_DIR "/docs/formats/job.md");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_NE(text.str().find(familiar_reference()), std::string::npos)
      << "docs/formats/job.md must hold this table:\n"
      << familiar_reference();
}

}  // namespace
}  // namespace ferry
