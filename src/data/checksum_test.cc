#include "data/checksum.h"

#include <gtest/gtest.h>

#include <string>

#include "data/scratch_folder.h"

namespace ferry {
namespace {

std::uint64_t hash_of(const std::string& text) {
  Xxh64 hash;
  hash.update(std::as_bytes(std::span(text)));
  return hash.value();
}

TEST(Xxh64, AgreesWithPublishedValues) {
  EXPECT_EQ(hash_of(""), 0xEF46DB3751D8E999);
  EXPECT_EQ(hash_of("a"), 0xD24EC4F1A98C6E5B);
  EXPECT_EQ(hash_of("abc"), 0x44BC2CF5AD770999);
}

// Expected: Python's xxhash 3 over bytes(7 * i % 256 for i in range(n)).
TEST(Xxh64, AgreesWithTheReferenceBeyondOneStripe) {
  std::string text;
  for (int i = 0; i < 111; ++i) text += static_cast<char>(i * 7);
  EXPECT_EQ(hash_of(text.substr(0, 32)), 0x91B0CB0931A8C629);
  EXPECT_EQ(hash_of(text.substr(0, 63)), 0x219110BF13E2FA26);
  EXPECT_EQ(hash_of(text), 0xF53ED9F22184BC0C);
}

// One tail of each length: 32-byte stripes, then 8, 4 and single bytes are treated differently.
TEST(Xxh64, PiecesOfAnySizeGiveTheHashOfTheWhole) {
  std::string text;
  for (int i = 0; i < 111; ++i) text += static_cast<char>(i * 7);
  for (std::size_t length = 0; length <= text.size(); ++length) {
    for (const std::size_t piece : {1u, 3u, 31u, 32u, 33u}) {
      Xxh64 hash;
      for (std::size_t at = 0; at < length; at += piece) {
        hash.update(std::as_bytes(
            std::span(text).first(length).subspan(at).first(std::min(piece, length - at))));
      }
      ASSERT_EQ(hash.value(), hash_of(text.substr(0, length))) << length << " by " << piece;
    }
  }
}

TEST(Xxh64, AFileIsHashedAcrossItsPieces) {
  const ScratchFolder folder;
  std::string text((std::size_t{2} << 20) + 5, 'x');
  text[std::size_t{1} << 20] = 'y';
  EXPECT_EQ(checksum_file(folder.put("file", text)), hash_of(text));
}

}  // namespace
}  // namespace ferry
