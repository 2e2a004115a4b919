#include "data/tokens.h"

#include <gtest/gtest.h>

#include <cctype>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "data/scratch_folder.h"
#include "data/token_text.h"

namespace ferry {
namespace {

const std::string kTwoSamples = "5 6 *7 *2\n3 *2\n";

TEST(TokenFile, HoldsSamplesWithTheirLearnFlags) {
  const ScratchFolder folder;
  const TokenFile file(folder.put("x.tokens", token_file_bytes(kTwoSamples, 8, 2)));
  ASSERT_EQ(file.size(), 2);
  EXPECT_EQ(file.tokens(), 6);
  EXPECT_EQ(file.learned(), 3);
  EXPECT_EQ(file.vocabulary(), 8u);
  EXPECT_EQ(file.end_token(), 2u);
  EXPECT_EQ(file.source_hash().substr(0, 8), "00010203");
  const Sample first = file.sample(0);
  EXPECT_EQ(std::vector(first.ids.begin(), first.ids.end()),
            (std::vector<std::uint32_t>{5, 6, 7, 2}));
  EXPECT_EQ(std::vector(first.learned.begin(), first.learned.end()),
            (std::vector<std::uint8_t>{0, 0, 1, 1}));
  EXPECT_EQ(file.sample(1).ids[0], 3u);
}

// ferry_tools' tests hold the other end: what it writes are the bytes of the page.
TEST(TokenFile, TheWorkedExampleOfTheFormatPageIsRead) {
  std::ifstream page(FERRY_SOURCE_DIR "/docs/formats/tokens.md");
  std::string bytes;
  for (std::string line; std::getline(page, line);) {
    if (line.size() < 8 || !std::isdigit(static_cast<unsigned char>(line[0])) ||
        line.substr(4, 2) != "  ") {
      continue;
    }
    std::istringstream digits(line.substr(6, 47));
    for (std::string pair; digits >> pair;) {
      bytes += static_cast<char>(std::stoi(pair, nullptr, 16));
    }
  }
  const ScratchFolder folder;
  const TokenFile file(folder.put("x.tokens", bytes));
  EXPECT_EQ(file.size(), 2);
  EXPECT_EQ(file.vocabulary(), 8u);
  EXPECT_EQ(file.end_token(), 2u);
  EXPECT_EQ(file.sample(0).ids[1], 7u);
  EXPECT_EQ(file.sample(1).ids[1], 2u);
  EXPECT_EQ(file.sample(1).learned[0], 0);
}

TEST(TokenFile, EveryTruncationAndExtensionIsAClearError) {
  const ScratchFolder folder;
  const std::string whole = token_file_bytes(kTwoSamples, 8, 2);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const auto path = folder.put("x.tokens", whole.substr(0, length));
    const std::string message = user_error([&] { TokenFile{path}; });
    EXPECT_NE(message.find(path.string()), std::string::npos) << length;
  }
  const auto longer = folder.put("x.tokens", whole + "x");
  EXPECT_NE(user_error([&] { TokenFile{longer}; }).find("damaged"), std::string::npos);
}

TEST(TokenFile, MoreSamplesThanAnOrderHoldsAreRefused) {
  const ScratchFolder folder;
  std::string bytes = token_file_bytes(kTwoSamples, 8, 2);
  bytes[24 + 4] = 1;  // of the count of samples, byte 4: 2^32 more
  EXPECT_NE(user_error([&] {
              TokenFile{folder.put("x.tokens", bytes)};
            }).find(": 4294967298 samples; ferry takes at most 2147483647"),
            std::string::npos);
}

// Whatever single byte is damaged outside the hash, the file is either refused or still sound: ids
// stay inside the vocabulary.
TEST(TokenFile, NoDamagedByteLeadsOutsideTheFile) {
  const ScratchFolder folder;
  const std::string whole = token_file_bytes(kTwoSamples, 8, 2);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    for (const char flip : {'\1', '\x80', '\xff'}) {
      std::string damaged = whole;
      damaged[i] = static_cast<char>(damaged[i] ^ flip);
      const auto path = folder.put("x.tokens", damaged);
      const std::string message = user_error([&] {
        const TokenFile file(path);
        for (std::int64_t s = 0; s < file.size(); ++s) {
          for (const std::uint32_t id : file.sample(s).ids) ASSERT_LT(id, file.vocabulary());
        }
      });
      const bool is_known = i < 12 || (i >= 20 && i < 24);  // magic, version; reserved
      EXPECT_TRUE(!is_known || !message.empty()) << "byte " << i;
    }
  }
}

TEST(TokenFile, WhoeverWritesToItWhileItIsOpenIsSeen) {
  const ScratchFolder folder;
  const std::string whole = token_file_bytes(kTwoSamples, 8, 2);
  const auto path = folder.put("x.tokens", whole);
  TokenFile file(path);
  const auto write = [&](const std::string& bytes) {  // in place, not under another name
    std::ofstream(path, std::ios::in | std::ios::binary) << bytes;
    const auto later = std::filesystem::last_write_time(path) + std::chrono::seconds(1);
    std::filesystem::last_write_time(path, later);
  };
  EXPECT_FALSE(file.has_changed());
  write(whole);
  EXPECT_FALSE(file.has_changed()) << "the same bytes";
  std::string other = whole;
  other.back() ^= 1;
  write(other);
  EXPECT_TRUE(file.has_changed());
  std::filesystem::resize_file(path, whole.size() / 2);
  EXPECT_TRUE(file.has_changed());
}

TEST(TokenFile, AnEmptySampleIsRefused) {
  const ScratchFolder folder;
  const auto path = folder.put("x.tokens", token_file_bytes("1 2\n\n3\n", 8, 2));
  EXPECT_NE(user_error([&] { TokenFile{path}; }).find("sample 1 is empty"), std::string::npos);
}

TEST(TokenFile, AnIdOutsideItsVocabularyIsNamed) {
  const ScratchFolder folder;
  const auto path = folder.put("x.tokens", token_file_bytes("1 2 9\n", 8, 2));
  EXPECT_NE(user_error([&] { TokenFile{path}; }).find("token 2 has id 9"), std::string::npos);
}

TEST(TokenFile, AVocabularyBeyondTheModelsIsRefused) {
  const ScratchFolder folder;
  const TokenFile file(folder.put("x.tokens", token_file_bytes(kTwoSamples, 8, 2)));
  file.require_vocabulary(8);
  EXPECT_NE(user_error([&] { file.require_vocabulary(7); }).find("the model's has 7"),
            std::string::npos);
}

}  // namespace
}  // namespace ferry
