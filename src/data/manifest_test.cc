#include "data/manifest.h"

#include <gtest/gtest.h>

#include "data/scratch_folder.h"

namespace ferry {
namespace {

Manifest example() {
  Manifest manifest;
  manifest.step = 12;
  manifest.sequences = 96;
  manifest.seed = 0xFFFFFFFFFFFFFFFF;
  manifest.data_hash = "abc";
  manifest.versions = {{"ferry", "0.1.0"}};
  return manifest;
}

TEST(Manifest, WhatIsWrittenIsReadAgain) {
  const ScratchFolder folder;
  folder.put("model.safetensors", "abc");
  folder.put("sub/config.json", "");
  write_manifest(folder.path(), example());
  const Manifest manifest = read_manifest(folder.path());
  EXPECT_EQ(manifest.step, 12);
  EXPECT_EQ(manifest.sequences, 96);
  EXPECT_EQ(manifest.seed, 0xFFFFFFFFFFFFFFFF);
  EXPECT_EQ(manifest.data_hash, "abc");
  EXPECT_EQ(manifest.versions.at("ferry"), "0.1.0");
  ASSERT_EQ(manifest.files.size(), 2u);
  EXPECT_EQ(manifest.files[0].name, "model.safetensors");
  EXPECT_EQ(manifest.files[0].size, 3_B);
  EXPECT_EQ(manifest.files[0].xxh64, 0x44BC2CF5AD770999);
  EXPECT_EQ(manifest.files[1].name, "sub/config.json");
  verify_checksums(folder.path(), manifest);
}

TEST(Manifest, WritingAndCheckingTellHowManyBytesAreRead) {
  struct Listener final : PhaseListener {
    void progress(const Progress& progress) override { told.push_back(progress); }
    std::vector<Progress> told;
  } listener;
  const ScratchFolder folder;
  folder.put("model.safetensors", "abc");
  folder.put("optimizer.safetensors", "abcdef");
  write_manifest(folder.path(), example(), listener);
  EXPECT_EQ(listener.told.front().what, "checksums of " + folder.path().string());
  EXPECT_EQ(listener.told.back().done, 9);
  EXPECT_EQ(listener.told.back().total, 9);
  listener.told.clear();
  verify_checksums(folder.path(), read_manifest(folder.path()), listener);
  EXPECT_EQ(listener.told.front().what, "checking " + folder.path().string());
  EXPECT_EQ(listener.told.back().done, 9);
}

TEST(Manifest, AMissingShortenedOrDamagedFileIsNamed) {
  const ScratchFolder folder;
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
  folder.put("weights", "abc");
  write_manifest(folder.path(), example());
  const auto size = std::filesystem::file_size(folder / kManifestName);
  for (std::uintmax_t length = size - 2; length > 0;
       --length) {  // without its last newline it is whole
    std::filesystem::resize_file(folder / kManifestName, length);
    EXPECT_NE(user_error([&] { read_manifest(folder.path()); }).find(kManifestName),
              std::string::npos)
        << length;
  }
}

TEST(Manifest, AFileOutsideTheFolderIsRefused) {
  const ScratchFolder folder;
  folder.put(kManifestName,
             R"({"format":"ferry-checkpoint","version":1,"step":1,"sequences":1,"seed":1,)"
             R"("data_hash":"","versions":{},)"
             R"("files":[{"name":"../x","bytes":1,"xxh64":"0000000000000000"}]})");
  EXPECT_NE(user_error([&] { read_manifest(folder.path()); }).find("not inside"),
            std::string::npos);
}

TEST(Manifest, AnotherVersionOrAnotherFileIsRefused) {
  const ScratchFolder folder;
  folder.put(kManifestName, R"({"format":"ferry-checkpoint","version":2})");
  EXPECT_NE(user_error([&] { read_manifest(folder.path()); }).find("version 2"), std::string::npos);
  folder.put(kManifestName, R"({"hello":1})");
  EXPECT_NE(user_error([&] { read_manifest(folder.path()); }).find("not a ferry checkpoint"),
            std::string::npos);
}

}  // namespace
}  // namespace ferry
