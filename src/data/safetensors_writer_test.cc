#include "data/safetensors_writer.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <numeric>
#include <sstream>

#include "base/error.h"
#include "data/safetensors.h"
#include "data/scratch_folder.h"

namespace ferry {
namespace {

const std::vector<TensorDeclaration> kTensors = {
    {"narrow", ElementType::bf16, {3}},
    {"matrix", ElementType::f32, {2, 2}},
    {"scalar", ElementType::f32, {}},
    {"none", ElementType::f32, {0, 7}},
};

std::vector<std::byte> pattern(std::int64_t size, int seed) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(i * 13 + static_cast<std::size_t>(seed));
  }
  return bytes;
}

void write_all(SafetensorsWriter& writer) {
  writer.write("none", {});
  writer.write("scalar", pattern(4, 1));
  writer.write("narrow", pattern(6, 2));
  const auto matrix = pattern(16, 3);
  writer.write_part("matrix", 10_B, std::span(matrix).subspan(10));
  writer.write_part("matrix", 0_B, std::span(matrix).first(10));
}

void expect_all(const Checkpoint& checkpoint) {
  ASSERT_EQ(checkpoint.tensors().size(), 4u);
  const std::pair<const char*, int> seeds[] = {{"scalar", 1}, {"narrow", 2}, {"matrix", 3}};
  for (const auto& [name, seed] : seeds) {
    const TensorEntry& entry = checkpoint.at(name);
    std::vector<std::byte> bytes(static_cast<std::size_t>(entry.size.count));
    checkpoint.read(entry, bytes);
    EXPECT_EQ(bytes, pattern(entry.size.count, seed)) << name;
  }
  EXPECT_EQ(checkpoint.at("matrix").shape, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(checkpoint.at("none").shape, (std::vector<std::int64_t>{0, 7}));
  EXPECT_EQ(checkpoint.at("matrix").offset.count % 8, 0);
}

TEST(SafetensorsWriter, WhatIsWrittenIsReadAgain) {
  const ScratchFolder folder;
  SafetensorsWriter writer(folder.path(), "model", kTensors);
  write_all(writer);
  EXPECT_FALSE(std::filesystem::exists(folder / "model.safetensors"));
  writer.commit();
  EXPECT_EQ(writer.file_names(), std::vector<std::string>{"model.safetensors"});
  EXPECT_EQ(folder.count(), 1u);
  expect_all(open_checkpoint(folder.path()));
}

TEST(SafetensorsWriter, ShardsStayBelowTheSizeAskedForAndAreIndexed) {
  const ScratchFolder folder;
  SafetensorsWriter writer(folder.path(), "model", kTensors, 12_B);
  write_all(writer);
  writer.commit();
  EXPECT_EQ(writer.file_names(),
            (std::vector<std::string>{
                "model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                "model-00003-of-00003.safetensors", "model.safetensors.index.json"}));
  expect_all(open_checkpoint(folder.path()));
}

TEST(SafetensorsWriter, AnAbandonedWriterLeavesNothingBehind) {
  const ScratchFolder folder;
  {
    SafetensorsWriter writer(folder.path(), "model", kTensors, 12_B);
    writer.write("scalar", pattern(4, 1));
  }
  EXPECT_EQ(folder.count(), 0u);
}

TEST(SafetensorsWriter, AnOlderFileSurvivesAFailureAndIsReplacedBySuccess) {
  const ScratchFolder folder;
  folder.put("model.safetensors", "older");
  { const SafetensorsWriter writer(folder.path(), "model", kTensors); }
  std::ifstream older(folder / "model.safetensors");
  std::stringstream text;
  text << older.rdbuf();
  EXPECT_EQ(text.str(), "older");

  SafetensorsWriter writer(folder.path(), "model", kTensors);
  write_all(writer);
  writer.commit();
  expect_all(open_checkpoint(folder.path()));
}

TEST(SafetensorsWriter, AFullDriveIsAnErrorAtEveryByteAndLeavesNothing) {
  const ScratchFolder folder;
  SafetensorsWriter probe(folder.path(), "probe", kTensors, 12_B);
  write_all(probe);
  probe.commit();
  const auto index = std::filesystem::file_size(folder / "probe.safetensors.index.json");
  for (std::size_t limit = 0; limit < index; limit += 7) {
    const ScratchFolder target;
    std::string message;
    {
      const FileSizeLimit full(limit);
      try {
        SafetensorsWriter writer(target.path(), "model", kTensors, 12_B);
        write_all(writer);
        writer.commit();
      } catch (const ResourceError& error) {
        message = error.what();
      }
    }
    EXPECT_NE(message.find(target.path().string()), std::string::npos) << limit;
    for (const auto& item : std::filesystem::directory_iterator(target.path())) {
      const std::string name = item.path().filename().string();
      EXPECT_FALSE(name.starts_with("model.safetensors.index.json")) << limit << " " << name;
    }
  }
}

TEST(OutputFile, AShortWriteIsAnErrorThatCountsWhatWasWritten) {
  const ScratchFolder folder;
  OutputFile file(folder / "x", 100_B);
  const FileSizeLimit full(60);
  try {
    file.write(0_B, pattern(100, 0));
    FAIL() << "the write should have failed";
  } catch (const ResourceError& error) {
    EXPECT_NE(std::string(error.what()).find("at byte 60, 60 of 100 bytes written"),
              std::string::npos)
        << error.what();
  }
}

TEST(OutputFile, ReservingMoreThanThereIsNamesNeedAndHave) {
  const ScratchFolder folder;
  const FileSizeLimit full(1000);
  try {
    const OutputFile file(folder / "x", 5_KiB);
    FAIL() << "the reservation should have failed";
  } catch (const ResourceError& error) {
    EXPECT_NE(std::string(error.what()).find("needs 5.0 KiB, has "), std::string::npos)
        << error.what();
  }
  EXPECT_EQ(folder.count(), 0u);
}

/// Runs Python with the safetensors package on a folder; false when there is none.
class PythonSafetensors : public testing::Test {
 protected:
  void SetUp() override {
    if (run("import safetensors", "") != 0) GTEST_SKIP() << "no Python with safetensors";
  }
  static int run(const std::string& program, const std::string& folder) {
    const std::string python = FERRY_PYTHON;
    if (python.empty()) return 1;
    return std::system((python + " -c '" + program + "' " + folder + " 2>/dev/null").c_str());
  }
};

TEST_F(PythonSafetensors, ReadsWhatWeWrite) {
  const ScratchFolder folder;
  SafetensorsWriter writer(folder.path(), "model", kTensors);
  write_all(writer);
  writer.commit();
  EXPECT_EQ(run(R"(
import sys, safetensors
bytes_of = lambda n, seed: bytes((i * 13 + seed) % 256 for i in range(n))
with open(sys.argv[1] + "/model.safetensors", "rb") as f: found = dict(safetensors.deserialize(f.read()))
assert bytes(found["matrix"]["data"]) == bytes_of(16, 3) and list(found["matrix"]["shape"]) == [2, 2]
assert bytes(found["narrow"]["data"]) == bytes_of(6, 2) and found["narrow"]["dtype"] == "BF16"
assert bytes(found["scalar"]["data"]) == bytes_of(4, 1) and list(found["scalar"]["shape"]) == []
assert list(found["none"]["shape"]) == [0, 7]
with safetensors.safe_open(sys.argv[1] + "/model.safetensors", "np") as f: assert f.metadata() == {"format": "pt"}
)",
                folder.path().string()),
            0);
}

TEST_F(PythonSafetensors, WritesWhatWeRead) {
  const ScratchFolder folder;
  ASSERT_EQ(run(R"(
import sys, numpy, safetensors.numpy
safetensors.numpy.save_file({
    "f32": numpy.array([[1.5, -2.0]], dtype="f4"), "f16": numpy.array([0.5, 65504.0, 2.0 ** -24], dtype="f2"),
    "scalar": numpy.array(7, dtype="i8"), "none": numpy.zeros((3, 0), dtype="f4")},
    sys.argv[1] + "/model.safetensors", {"format": "pt"})
)",
                folder.path().string()),
            0);
  const Checkpoint checkpoint = open_checkpoint(folder.path());
  std::vector<float> values(3);
  checkpoint.read_as_f32(checkpoint.at("f16"), 0, values);
  EXPECT_EQ(values, (std::vector<float>{0.5f, 65504.0f, 0x1p-24f}));
  values.resize(2);
  checkpoint.read_as_f32(checkpoint.at("f32"), 0, values);
  EXPECT_EQ(values, (std::vector<float>{1.5f, -2.0f}));
  EXPECT_EQ(checkpoint.at("scalar").numel(), 1);
  EXPECT_EQ(checkpoint.at("none").shape, (std::vector<std::int64_t>{3, 0}));
}

}  // namespace
}  // namespace ferry
