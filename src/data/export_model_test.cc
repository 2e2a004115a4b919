#include "data/export_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "data/float_formats.h"
#include "data/manifest.h"
#include "data/model_folder.h"
#include "data/safetensors.h"
#include "data/safetensors_writer.h"
#include "data/scratch_folder.h"

namespace ferry {
namespace {

constexpr std::int64_t kCount = 300'000;  // several pieces

std::vector<float> values() {
  std::vector<float> made;
  for (std::int64_t i = 0; i < kCount; ++i) made.push_back(std::sin(static_cast<float>(i)));
  return made;
}

/// Writes one tensor "w" into a file.
template <typename T>
void put_tensor(const std::filesystem::path& folder, const std::string& stem,
                const std::string& name, ElementType type, const std::vector<T>& data) {
  std::filesystem::create_directories(folder);
  SafetensorsWriter writer(folder, stem, {{name, type, {std::ssize(data)}}});
  writer.write(name, std::as_bytes(std::span(data)));
  writer.commit();
}

/// A checkpoint in bf16 whose masters are `master`, or one in fp32.
std::filesystem::path put_checkpoint(const ScratchFolder& scratch, const std::vector<float>& master,
                                     bool bf16) {
  const auto folder = scratch / "step-000001";
  std::filesystem::create_directories(folder / kStateFolder);
  if (bf16) {
    std::vector<std::uint16_t> halves(master.size());
    narrow_bf16(master, halves);
    put_tensor(folder, "model", "w", ElementType::bf16, halves);
    put_tensor(folder / kStateFolder, kOptimizerStem, std::string("w") + kMasterSuffix,
               ElementType::f32, master);
  } else {
    put_tensor(folder, "model", "w", ElementType::f32, master);
    put_tensor(folder / kStateFolder, kOptimizerStem, "w.exp_avg", ElementType::f32, master);
  }
  scratch.put("step-000001/config.json", R"({"dtype":"float32"})");
  scratch.put("step-000001/tokenizer.json", "{}");
  write_manifest(folder, Manifest());
  return folder;
}

/// The exported weights as they are stored.
template <typename T>
std::vector<T> exported(const std::filesystem::path& folder, ElementType type) {
  const Checkpoint checkpoint = open_checkpoint(folder);
  const TensorEntry& entry = checkpoint.at("w");
  EXPECT_EQ(entry.type, type);
  std::vector<T> found(static_cast<std::size_t>(entry.numel()));
  checkpoint.read(entry, std::as_writable_bytes(std::span(found)));
  return found;
}

std::vector<std::uint16_t> rounded(std::uint16_t (*narrow)(float), const std::vector<float>& wide) {
  std::vector<std::uint16_t> bits;
  for (const float value : wide) bits.push_back(narrow(value));
  return bits;
}

TEST(ExportModel, TheFolderHoldsModelConfigurationAndTokenizerAlone) {
  const ScratchFolder scratch;
  const auto checkpoint = put_checkpoint(scratch, values(), /*bf16=*/false);
  const ExportedModel made = export_model(checkpoint, scratch / "out", std::nullopt);
  EXPECT_EQ(made.type, ElementType::f32);
  EXPECT_EQ(made.tensors, 1u);
  EXPECT_EQ(made.size, Bytes{4 * kCount});
  EXPECT_EQ(exported<float>(scratch / "out", ElementType::f32), values());
  std::filesystem::remove(scratch / "out/model.safetensors");
  std::filesystem::remove(scratch / "out/tokenizer.json");
  EXPECT_EQ(read_file(scratch / "out/config.json", 1_KiB), "{\n  \"dtype\": \"float32\"\n}\n");
  std::filesystem::remove(scratch / "out/config.json");
  EXPECT_TRUE(std::filesystem::is_empty(scratch / "out"));
}

TEST(ExportModel, NarrowerTypesAreRoundedFromTheExactWeights) {
  for (const bool bf16 : {false, true}) {
    const ScratchFolder scratch;
    const auto checkpoint = put_checkpoint(scratch, values(), bf16);
    export_model(checkpoint, scratch / "half", ElementType::f16);
    EXPECT_EQ(exported<std::uint16_t>(scratch / "half", ElementType::f16),
              rounded(float_to_f16, values()));
    export_model(checkpoint, scratch / "brain", ElementType::bf16);
    EXPECT_EQ(exported<std::uint16_t>(scratch / "brain", ElementType::bf16),
              rounded(float_to_bf16, values()));
    export_model(checkpoint, scratch / "exact", ElementType::f32);
    EXPECT_EQ(exported<float>(scratch / "exact", ElementType::f32), values());
  }
}

TEST(ExportModel, AWeightBeyondTheTypeIsNamedAndNothingIsLeft) {
  const ScratchFolder scratch;
  std::vector<float> large = values();
  large[200'000] = 1e6f;
  const auto checkpoint = put_checkpoint(scratch, large, /*bf16=*/false);
  const std::string error =
      user_error([&] { export_model(checkpoint, scratch / "out", ElementType::f16); });
  EXPECT_EQ(error,
            "tensor \"w\", element 200000: 1000000.000000 is beyond the largest F16; export as "
            "bf16 or fp32");
  EXPECT_FALSE(std::filesystem::exists(scratch / "out"));
}

TEST(ExportModel, AFolderThatIsNotEmptyIsRefusedAndKept) {
  const ScratchFolder scratch;
  const auto checkpoint = put_checkpoint(scratch, values(), /*bf16=*/false);
  scratch.put("out/notes", "mine");
  const std::string error =
      user_error([&] { export_model(checkpoint, scratch / "out", std::nullopt); });
  EXPECT_NE(error.find("is not empty"), std::string::npos);
  EXPECT_EQ(read_file(scratch / "out/notes", 1_KiB), "mine");
}

TEST(ExportModel, ADamagedCheckpointIsRefused) {
  const ScratchFolder scratch;
  const auto checkpoint = put_checkpoint(scratch, values(), /*bf16=*/true);
  scratch.put("step-000001/tokenizer.json", "[]");
  EXPECT_NE(user_error([&] {
              export_model(checkpoint, scratch / "out", std::nullopt);
            }).find("tokenizer.json: damaged"),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(scratch / "out"));
}

TEST(ExportModel, AFullDriveLeavesTheFolderAsItWas) {
  const ScratchFolder scratch;
  const auto checkpoint = put_checkpoint(scratch, values(), /*bf16=*/false);
  std::filesystem::create_directory(scratch / "out");
  const FileSizeLimit full(kCount);
  EXPECT_THROW(export_model(checkpoint, scratch / "out", std::nullopt), ResourceError);
  EXPECT_TRUE(std::filesystem::is_empty(scratch / "out"));
}

}  // namespace
}  // namespace ferry
