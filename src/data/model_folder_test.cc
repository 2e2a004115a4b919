#include "data/model_folder.h"

#include <gtest/gtest.h>

#include "data/files.h"
#include "data/scratch_folder.h"

namespace ferry {
namespace {

std::string config_after(const std::string& before, ElementType weights) {
  const ScratchFolder from, to;
  from.put("config.json", before);
  ModelFiles(from.path()).write(to.path(), weights);
  return read_file(to / "config.json", 1_MiB);
}

TEST(ModelFolder, TheConfigurationTellsTheTypeOfTheWeights) {
  EXPECT_EQ(config_after(R"({"dtype":"bfloat16"})", ElementType::f32),
            "{\n  \"dtype\": \"float32\"\n}\n");
  EXPECT_EQ(config_after(R"({"dtype":"float32"})", ElementType::f16),
            "{\n  \"dtype\": \"float16\"\n}\n");
  EXPECT_EQ(config_after("{}", ElementType::bf16), "{\n  \"dtype\": \"bfloat16\"\n}\n");
}

TEST(ModelFolder, TheOlderKeyOfTheTypeStays) {
  EXPECT_EQ(config_after(R"({"torch_dtype":"float16"})", ElementType::bf16),
            "{\n  \"torch_dtype\": \"bfloat16\"\n}\n");
}

TEST(ModelFolder, OtherKeysKeepTheirValues) {
  EXPECT_EQ(config_after(R"({"eps": 1e-06, "theta": 500000.0, "none": null})", ElementType::f32),
            "{\n  \"dtype\": \"float32\",\n  \"eps\": 1e-06,\n  \"none\": null,\n"
            "  \"theta\": 500000.0\n}\n");
}

TEST(ModelFolder, TokenizerTemplateAndGenerationSettingsComeAlongAndNothingElse) {
  const ScratchFolder from, to;
  from.put("config.json", "{}");
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja",
                           "generation_config.json", "model.safetensors", "README.md"}) {
    from.put(name, name);
  }
  ModelFiles(from.path()).write(to.path(), ElementType::f32);
  EXPECT_EQ(read_file(to / "chat_template.jinja", 1_KiB), "chat_template.jinja");
  EXPECT_TRUE(std::filesystem::exists(to / "tokenizer.json"));
  EXPECT_TRUE(std::filesystem::exists(to / "tokenizer_config.json"));
  EXPECT_TRUE(std::filesystem::exists(to / "generation_config.json"));
  EXPECT_EQ(to.count(), 5u);
}

TEST(ModelFolder, AnotherChatTemplateStandsInPlaceOfTheFolders) {
  const ScratchFolder from, to, elsewhere;
  from.put("config.json", "{}");
  from.put("chat_template.jinja", "the folder's");
  elsewhere.put("chatml.txt", "another");
  ModelFiles(from.path(), elsewhere / "chatml.txt").write(to.path(), ElementType::f32);
  EXPECT_EQ(read_file(to / "chat_template.jinja", 1_KiB), "another");
  EXPECT_EQ(to.count(), 2u);
}

TEST(ModelFolder, WhatWasReadIsWrittenWhereAFileHasChanged) {
  const ScratchFolder from, to;
  from.put("config.json", "{}");
  from.put("tokenizer.json", "read");
  const ModelFiles files(from.path());
  from.put("tokenizer.json", "{}");
  files.write(to.path(), ElementType::f32);
  EXPECT_EQ(read_file(to / "tokenizer.json", 1_KiB), "read");
}

TEST(ModelFolder, WhatWasReadIsWrittenWhereItsFolderIsGone) {
  const ScratchFolder to;
  const auto files = [] {
    const ScratchFolder from;
    from.put("config.json", R"({"eps": 1e-06})");
    from.put("tokenizer.json", std::string(3'000'000, 't'));
    from.put("merges.txt", "");
    return ModelFiles(from.path());
  }();
  files.write(to.path(), ElementType::f32);
  EXPECT_EQ(read_file(to / "config.json", 1_KiB),
            "{\n  \"dtype\": \"float32\",\n  \"eps\": 1e-06\n}\n");
  EXPECT_EQ(read_file(to / "tokenizer.json", 4_MiB), std::string(3'000'000, 't'));
  EXPECT_EQ(read_file(to / "merges.txt", 1_KiB), "");
}

TEST(ModelFolder, AFolderWithoutAConfigurationIsNoModel) {
  const ScratchFolder from;
  EXPECT_NE(user_error([&] { ModelFiles(from.path()); }).find("config.json"), std::string::npos);
}

}  // namespace
}  // namespace ferry
