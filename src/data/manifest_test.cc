#include "data/manifest.h"

#include <gtest/gtest.h>

#include "data/files.h"
#include "data/scratch_folder.h"

namespace ferry {
namespace {

Manifest example() {
  Manifest manifest;
  manifest.step = 12;
  manifest.sequences = 96;
  manifest.question = {{"optim.lr", "1e-4"}, {"train.seed", "9007199254740991"}};
  manifest.versions = {{"ferry", "0.1.0"}};
  return manifest;
}

/// The files without which a folder is no checkpoint.
void put_parts(const ScratchFolder& folder) {
  folder.put("config.json", "{}");
  folder.put("model.safetensors", "abc");
  folder.put("ferry/optimizer.safetensors", "de");
}

TEST(Manifest, WhatIsWrittenIsReadAgain) {
  const ScratchFolder folder;
  put_parts(folder);
  folder.put("sub/notes", "");
  write_manifest(folder.path(), example());
  const Manifest manifest = read_manifest(folder.path());
  EXPECT_EQ(manifest.step, 12);
  EXPECT_EQ(manifest.sequences, 96);
  EXPECT_EQ(manifest.question, example().question);
  EXPECT_EQ(manifest.versions.at("ferry"), "0.1.0");
  ASSERT_EQ(manifest.files.size(), 4u);
  EXPECT_EQ(manifest.files[2].name, "model.safetensors");
  EXPECT_EQ(manifest.files[2].size, 3_B);
  EXPECT_EQ(manifest.files[2].xxh64, 0x44BC2CF5AD770999);
  EXPECT_EQ(manifest.files[3].name, "sub/notes");
  verify_checksums(folder.path(), manifest);
}

TEST(Manifest, WritingAndCheckingTellHowManyBytesAreRead) {
  struct Listener final : PhaseListener {
    void progress(const Progress& progress) override { told.push_back(progress); }
    std::vector<Progress> told;
  } listener;
  const ScratchFolder folder;
  put_parts(folder);
  write_manifest(folder.path(), example(), listener);
  EXPECT_EQ(listener.told.front().what, "checksums of " + folder.path().string());
  EXPECT_EQ(listener.told.back().done, 7);
  EXPECT_EQ(listener.told.back().total, 7);
  listener.told.clear();
  verify_checksums(folder.path(), read_manifest(folder.path()), listener);
  EXPECT_EQ(listener.told.front().what, "checking " + folder.path().string());
  EXPECT_EQ(listener.told.back().done, 7);
}

TEST(Manifest, AMissingShortenedOrDamagedFileIsNamed) {
  const ScratchFolder folder;
  put_parts(folder);
  folder.put("weights", "abc");
  write_manifest(folder.path(), example());

  folder.put("weights", "abd");
  const Manifest manifest = read_manifest(folder.path());
  EXPECT_NE(user_error([&] { verify_checksums(folder.path(), manifest); }).find("weights: damaged"),
            std::string::npos);
  folder.put("weights", "ab");
  EXPECT_NE(user_error([&] { read_manifest(folder.path()); }).find("2 bytes, the manifest says 3"),
            std::string::npos);
  std::filesystem::remove(folder / "weights");
  EXPECT_NE(user_error([&] { read_manifest(folder.path()); }).find("cannot be read"),
            std::string::npos);
}

TEST(Manifest, EveryTruncationIsAClearError) {
  const ScratchFolder folder;
  put_parts(folder);
  folder.put("weights", "abc");
  write_manifest(folder.path(), example());
  const auto size = std::filesystem::file_size(folder / kManifestName);
  for (std::uintmax_t length = size - 1; length > 0; --length) {
    std::filesystem::resize_file(folder / kManifestName, length);
    EXPECT_NE(user_error([&] { read_manifest(folder.path()); }).find(kManifestName),
              std::string::npos)
        << length;
  }
}

TEST(Manifest, EveryFlippedBitIsDamageOfTheManifest) {
  const ScratchFolder folder;
  put_parts(folder);
  write_manifest(folder.path(), example());
  const std::string text = read_file(folder / kManifestName, 1_MiB);
  for (std::size_t at = 0; at < text.size(); ++at) {
    for (const int bit : {0, 5}) {  // another digit or letter, and the other case
      std::string other = text;
      other[at] = static_cast<char>(other[at] ^ 1 << bit);
      folder.put(kManifestName, other);
      const std::string said = user_error([&] { read_manifest(folder.path()); });
      ASSERT_NE(said.find(kManifestName), std::string::npos) << at << " " << bit << ": " << said;
    }
  }
}

/// A manifest with `changed` in place of the key's value, and what reading it says.
std::string said_of(const std::string& key, const std::string& changed) {
  const ScratchFolder folder;
  put_parts(folder);
  write_manifest(folder.path(), example());
  std::string text = read_file(folder / kManifestName, 1_MiB);
  const std::size_t begin = text.find("\"" + key + "\": ") + key.size() + 4;
  text.replace(begin, text.find_first_of(",\n", begin) - begin, changed);
  folder.put(kManifestName, text);
  return user_error([&] { read_manifest(folder.path()); });
}

TEST(Manifest, AStepBeyondAnyRunIsRefused) {
  EXPECT_NE(said_of("step", "1000000000").find("damaged: xxh64 "), std::string::npos);
  for (const char* step : {"1000000001", "2147483649", "4294967302", "18446744073709551615"}) {
    EXPECT_NE(said_of("step", step).find("expected at most 1000000000"), std::string::npos) << step;
  }
  for (const char* step : {"-1", "1.5", "\"6\""}) {
    EXPECT_NE(said_of("step", step).find("wrong type"), std::string::npos) << step;
  }
}

TEST(Manifest, WeightsOptimizerAndConfigurationMustBeNamed) {
  for (const std::string part :
       {"config.json", "model.safetensors", "ferry/optimizer.safetensors"}) {
    const ScratchFolder folder;
    put_parts(folder);
    std::filesystem::remove(folder / part);
    write_manifest(folder.path(), example());
    const std::string said = user_error([&] { read_manifest(folder.path()); });
    EXPECT_NE(said.find("it names no "), std::string::npos) << part;
    EXPECT_NE(said.find(part), std::string::npos) << said;
  }
}

TEST(Manifest, WeightsThatItDoesNotNameAreRefused) {
  const ScratchFolder folder;
  put_parts(folder);
  write_manifest(folder.path(), example());
  folder.put("model.safetensors.index.json", "{}");
  const std::string said = user_error([&] { read_manifest(folder.path()); });
  EXPECT_NE(said.find("\"model.safetensors.index.json\" is not in it"), std::string::npos) << said;
}

TEST(Manifest, AFileOutsideTheFolderIsRefused) {
  const ScratchFolder folder;
  folder.put(kManifestName,
             R"({"format":"ferry-checkpoint","version":2,"step":1,"sequences":1,"question":{},)"
             R"("versions":{},)"
             R"("files":[{"name":"../x","bytes":1,"xxh64":"0000000000000000"}]})");
  EXPECT_NE(user_error([&] { read_manifest(folder.path()); }).find("not inside"),
            std::string::npos);
}

TEST(Manifest, AnotherVersionOrAnotherFileIsRefused) {
  EXPECT_NE(said_of("version", "1").find("version 1, expected 2"), std::string::npos);
  EXPECT_NE(said_of("version", "1").find("as its model"), std::string::npos);
  const ScratchFolder folder;
  folder.put(kManifestName, R"({"hello":1})");
  EXPECT_NE(user_error([&] { read_manifest(folder.path()); }).find("not a ferry checkpoint"),
            std::string::npos);
}

}  // namespace
}  // namespace ferry
