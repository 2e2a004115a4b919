#include "data/safetensors.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <ctime>
#include <tuple>

#include "base/error.h"
#include "data/scratch_folder.h"

namespace ferry {
namespace {

std::string file_of(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + header + data;
}

std::string tensor(const std::string& name, const std::string& dtype, const std::string& shape,
                   int begin, int end) {
  return '"' + name + R"(":{"dtype":")" + dtype + R"(","shape":[)" + shape +
         R"(],"data_offsets":[)" + std::to_string(begin) + "," + std::to_string(end) + "]}";
}

struct BrokenFile {
  std::string rule;    // part of the message
  std::string header;  // of a file with 8 bytes of data
};

class Safetensors : public testing::TestWithParam<BrokenFile> {};

TEST_P(Safetensors, ABrokenRuleIsNamedWithTheFile) {
  const ScratchFolder folder;
  const auto path = folder.put("x.safetensors", file_of(GetParam().header, "12345678"));
  const std::string message = user_error([&] { open_safetensors(path); });
  EXPECT_NE(message.find(path.string()), std::string::npos) << message;
  EXPECT_NE(message.find(GetParam().rule), std::string::npos) << message;
}

const std::string kTwo = tensor("a", "F32", "1", 0, 4) + ",";
INSTANTIATE_TEST_SUITE_P(
    Rules, Safetensors,
    testing::Values(
        BrokenFile{"does not start with '{'", "[]"}, BrokenFile{"does not start with '{'", ""},
        BrokenFile{"not JSON", "{"}, BrokenFile{"not JSON", R"({"a":})"},
        BrokenFile{"not JSON", "{\"\xff\":1}"},
        BrokenFile{"\"a\" appears twice", "{" + kTwo + tensor("a", "F32", "1", 4, 8) + "}"},
        BrokenFile{"\"dtype\" appears twice",
                   R"({"a":{"dtype":"F32","dtype":"U8","shape":[2],"data_offsets":[0,8]}})"},
        BrokenFile{"\"b\" overlaps \"a\"", "{" + kTwo + tensor("b", "F32", "1", 3, 7) + "}"},
        BrokenFile{"\"b\": 1 bytes before it", "{" + kTwo + tensor("b", "U8", "3", 5, 8) + "}"},
        BrokenFile{"\"a\": 4 bytes before it", "{" + tensor("a", "F32", "1", 4, 8) + "}"},
        BrokenFile{"\"a\" ends 4 bytes beyond", "{" + tensor("a", "F32", "3", 0, 12) + "}"},
        BrokenFile{"4 bytes at the end", "{" + tensor("a", "F32", "1", 0, 4) + "}"},
        BrokenFile{"8 bytes at the end", "{}"},
        BrokenFile{"overflows", "{" + tensor("a", "F32", "4294967296,4294967296", 0, 8) + "}"},
        BrokenFile{"make 12 bytes, data_offsets 8", "{" + tensor("a", "F32", "3", 0, 8) + "}"},
        BrokenFile{"unknown dtype \"F31\"", "{" + tensor("a", "F31", "2", 0, 8) + "}"},
        BrokenFile{"dtype F4 has elements smaller", "{" + tensor("a", "F4", "16", 0, 8) + "}"},
        BrokenFile{"shape: expected", "{" + tensor("a", "F32", "-2", 0, 8) + "}"},
        BrokenFile{"shape: expected", "{" + tensor("a", "F32", "2.0", 0, 8) + "}"},
        BrokenFile{"shape: expected", "{" + tensor("a", "F32", "9223372036854775808", 0, 8) + "}"},
        BrokenFile{"begin <= end", "{" + tensor("a", "F32", "2", 8, 0) + "}"},
        BrokenFile{"'shape' is missing", R"({"a":{"dtype":"F32","data_offsets":[0,8]}})"},
        BrokenFile{"unknown key",
                   R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}})"},
        BrokenFile{"expected an object", R"({"a":1})"},
        BrokenFile{"strings only",
                   R"({"__metadata__":{"a":1},)" + tensor("b", "U8", "8", 0, 8) + "}"}));

TEST(SafetensorsFile, EmptyTensorsScalarsAndSpacesAreAccepted) {
  const ScratchFolder folder;
  const auto path = folder.put(
      "x.safetensors",
      file_of("{" + tensor("scalar", "F32", "", 0, 4) + "," + tensor("none", "F32", "0,5", 4, 4) +
                  "," + tensor("huge", "F32", "9223372036854775807,9,0", 4, 4) + "," +
                  tensor("last", "F8_E4M3", "4", 4, 8) + R"(,"__metadata__":{"format":"pt"}}   )",
              std::string("\0\0\x80\x3f"
                          "abcd",
                          8)));
  const Checkpoint checkpoint = open_safetensors(path);
  float value = 0;
  checkpoint.read_as_f32(checkpoint.at("scalar"), 0, std::span(&value, 1));
  EXPECT_EQ(value, 1.0f);
  EXPECT_EQ(checkpoint.at("none").numel(), 0);
  EXPECT_EQ(checkpoint.at("huge").numel(), 0);
  EXPECT_EQ(checkpoint.at("last").type, ElementType::f8_e4m3);
  EXPECT_EQ(checkpoint.find("lost"), nullptr);
  EXPECT_THROW(checkpoint.at("lost"), UserError);
  checkpoint.read(checkpoint.at("none"), {});
}

TEST(SafetensorsFile, EveryTruncationIsAClearError) {
  const ScratchFolder folder;
  const std::string whole = file_of("{" + kTwo + tensor("b", "BF16", "2", 4, 8) + "}", "12345678");
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const auto path = folder.put("x.safetensors", whole.substr(0, length));
    const std::string message = user_error([&] { open_safetensors(path); });
    EXPECT_NE(message.find(path.string()), std::string::npos) << length << ": " << message;
  }
}

TEST(SafetensorsFile, AHeaderLengthAboveTheCapIsRefusedBeforeItIsAllocated) {
  const ScratchFolder folder;
  const auto path = folder.put("x.safetensors", std::string(8, '\xff') + "{}");
  EXPECT_NE(user_error([&] { open_safetensors(path); }).find("at most 100000000"),
            std::string::npos);
}

// 200,000 nested brackets must not exhaust the stack.
TEST(SafetensorsFile, DeepNestingIsAnErrorNotACrash) {
  const ScratchFolder folder;
  const std::string deep = R"({"a":)" + std::string(200'000, '[');
  const auto broken = folder.put("x.safetensors", file_of(deep, ""));
  const auto closed =
      folder.put("y.safetensors", file_of(deep + std::string(200'000, ']') + "}", ""));
  EXPECT_THROW(open_safetensors(broken), UserError);
  EXPECT_THROW(open_safetensors(closed), UserError);
}

// A hundred thousand tensors took 145 s.
TEST(SafetensorsFile, ManyTensorsAreOpenedInLinearTime) {
  constexpr int kTensors = 100'000;
  std::string header = "{";
  for (int i = 0; i < kTensors; ++i) {
    header += (i > 0 ? "," : "") + tensor("t" + std::to_string(i), "U8", "1", i, i + 1);
  }
  const ScratchFolder folder;
  folder.put("model.safetensors", file_of(header + "}", std::string(kTensors, 'x')));
  const std::clock_t start = std::clock();  // of this process: the box may be busy
  const Checkpoint checkpoint = open_checkpoint(folder.path());
  EXPECT_EQ(checkpoint.tensors().size(), kTensors);
  EXPECT_NE(checkpoint.find("t99999"), nullptr);
  EXPECT_LT(std::clock() - start, 30 * CLOCKS_PER_SEC);  // about 0.5 s
}

TEST(SafetensorsFile, AFileThatShrinksAfterOpeningIsAnError) {
  const ScratchFolder folder;
  const auto path =
      folder.put("x.safetensors", file_of("{" + tensor("a", "U8", "8", 0, 8) + "}", "12345678"));
  const Checkpoint checkpoint = open_safetensors(path);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  std::array<std::byte, 8> bytes;
  EXPECT_THROW(checkpoint.read(checkpoint.at("a"), bytes), ResourceError);
}

TEST(SafetensorsFile, LargeTensorsAreWidenedInPieces) {
  const ScratchFolder folder;
  constexpr int kCount = 70'000;  // three pieces, the last one short
  std::string data;
  for (int i = 0; i < kCount; ++i) {
    const auto bits = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(float(i)) >> 16);
    data.append(reinterpret_cast<const char*>(&bits), 2);
  }
  const auto path = folder.put(
      "x.safetensors", file_of("{" + tensor("a", "BF16", "70000", 0, 2 * kCount) + "}", data));
  const Checkpoint checkpoint = open_safetensors(path);
  std::vector<float> values(kCount);
  checkpoint.read_as_f32(checkpoint.at("a"), 0, values);
  for (int i = 0; i < kCount; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(float(i)) & 0xFFFF0000u;
    ASSERT_EQ(values[static_cast<std::size_t>(i)], std::bit_cast<float>(bits)) << i;
  }
  constexpr int kFirst = 33'000;
  std::vector<float> part(kCount - kFirst);
  checkpoint.read_as_f32(checkpoint.at("a"), kFirst, part);
  EXPECT_TRUE(std::ranges::equal(part, std::span(values).subspan(kFirst)));
}

TEST(SafetensorsFile, IntegersAreNotReadAsFloats) {
  const ScratchFolder folder;
  const auto path =
      folder.put("x.safetensors", file_of("{" + tensor("a", "I64", "1", 0, 8) + "}", "12345678"));
  const Checkpoint checkpoint = open_safetensors(path);
  float value = 0;
  EXPECT_NE(user_error([&] {
              checkpoint.read_as_f32(checkpoint.at("a"), 0, std::span(&value, 1));
            }).find("\"a\" has dtype I64"),
            std::string::npos);
}

std::string index_of(const std::string& weight_map) {
  return R"({"metadata":{"total_size":8},"weight_map":)" + weight_map + "}";
}

TEST(ShardedCheckpoint, TensorsComeFromTheShardsOfTheIndex) {
  const ScratchFolder folder;
  folder.put("model.safetensors.index.json",
             index_of(R"({"a":"one.safetensors","b":"two.safetensors"})"));
  folder.put("one.safetensors", file_of("{" + tensor("a", "U8", "2", 0, 2) + "," +
                                            tensor("unlisted", "U8", "1", 2, 3) + "}",
                                        "xyz"));
  folder.put("two.safetensors", file_of("{" + tensor("b", "U8", "3", 0, 3) + "}", "abc"));
  const Checkpoint checkpoint = open_checkpoint(folder.path());
  ASSERT_EQ(checkpoint.tensors().size(), 2u);
  std::string bytes(2, '\0');
  checkpoint.read_part(checkpoint.at("b"), 1_B, std::as_writable_bytes(std::span(bytes)));
  EXPECT_EQ(bytes, "bc");
  EXPECT_EQ(checkpoint.path_of(checkpoint.at("a")).filename(), "one.safetensors");
}

TEST(ShardedCheckpoint, EachFaultOfAnIndexIsNamed) {
  const std::tuple<std::string, std::string> faults[] = {
      {"is not in its shard", index_of(R"({"a":"s.safetensors","b":"s.safetensors"})")},
      {"is missing", index_of(R"({"a":"lost.safetensors"})")},
      {"not inside", index_of(R"({"a":"../s.safetensors"})")},
      {"not inside", index_of(R"({"a":"x/../../s.safetensors"})")},
      {"not inside", index_of(R"({"a":"/etc/passwd"})")},
      {"not inside", index_of(R"({"a":""})")},
      {"not inside", index_of(R"({"a":"."})")},
      {"not inside", index_of(R"({"a":"s.safetensors\u0000"})")},
      {"expected a file name", index_of(R"({"a":1})")},
      {"appears twice", index_of(R"({"a":"s.safetensors","a":"s.safetensors"})")},
      {"weight_map", "{}"},
      {"weight_map", "[]"},
      {"not JSON", "{"},
  };
  for (const auto& [rule, index] : faults) {
    const ScratchFolder folder;
    folder.put("s.safetensors", file_of("{" + tensor("a", "U8", "1", 0, 1) + "}", "x"));
    folder.put("model.safetensors.index.json", index);
    const std::string message = user_error([&] { open_checkpoint(folder.path()); });
    EXPECT_NE(message.find(rule), std::string::npos) << index << ": " << message;
    EXPECT_NE(message.find("index.json"), std::string::npos) << message;
  }
}

TEST(ShardedCheckpoint, AFolderWithoutTensorsSaysWhatWasExpected) {
  const ScratchFolder folder;
  folder.put("pytorch_model.bin", "x");
  EXPECT_NE(user_error([&] { open_checkpoint(folder.path()); }).find("model.safetensors"),
            std::string::npos);
}

}  // namespace
}  // namespace ferry
