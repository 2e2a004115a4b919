#include "data/checksum.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <vector>

#include "data/files.h"

namespace ferry {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::uint64_t kPrime1 = 0x9E3779B185EBCA87;
constexpr std::uint64_t kPrime2 = 0xC2B2AE3D27D4EB4F;
constexpr std::uint64_t kPrime3 = 0x165667B19E3779F9;
constexpr std::uint64_t kPrime4 = 0x85EBCA77C2B2AE63;
constexpr std::uint64_t kPrime5 = 0x27D4EB2F165667C5;

template <typename Word>
Word load(const std::byte* from) {
  Word word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

std::uint64_t round(std::uint64_t lane, std::uint64_t input) {
  return std::rotl(lane + input * kPrime2, 31) * kPrime1;
}

std::uint64_t merge(std::uint64_t hash, std::uint64_t lane) {
  return (hash ^ round(0, lane)) * kPrime1 + kPrime4;
}

std::uint64_t avalanche(std::uint64_t hash) {
  hash = (hash ^ (hash >> 33)) * kPrime2;
  hash = (hash ^ (hash >> 29)) * kPrime3;
  return hash ^ (hash >> 32);
}

}  // namespace

void Xxh64::consume(std::span<const std::byte> stripes) {
  std::array<std::uint64_t, 4> lanes = lanes_;  // in registers: members would be stored each time
  for (const std::byte* at = stripes.data(); at != stripes.data() + stripes.size(); at += kStripe) {
    lanes[0] = round(lanes[0], load<std::uint64_t>(at));
    lanes[1] = round(lanes[1], load<std::uint64_t>(at + 8));
    lanes[2] = round(lanes[2], load<std::uint64_t>(at + 16));
    lanes[3] = round(lanes[3], load<std::uint64_t>(at + 24));
  }
  lanes_ = lanes;
}

void Xxh64::update(std::span<const std::byte> bytes) {
  const auto held = static_cast<std::size_t>(length_ % kStripe);
  length_ += bytes.size();
  if (held + bytes.size() < kStripe) {
    std::copy(bytes.begin(), bytes.end(), rest_.begin() + static_cast<std::ptrdiff_t>(held));
    return;
  }
  if (held > 0) {
    const auto missing = bytes.first(kStripe - held);
    std::copy(missing.begin(), missing.end(), rest_.begin() + static_cast<std::ptrdiff_t>(held));
    consume(rest_);
    bytes = bytes.subspan(missing.size());
  }
  const auto whole = bytes.first(bytes.size() / kStripe * kStripe);
  consume(whole);
  bytes = bytes.subspan(whole.size());
  std::copy(bytes.begin(), bytes.end(), rest_.begin());
}

std::uint64_t Xxh64::value() const {
  std::uint64_t hash = kPrime5;
  if (length_ >= kStripe) {
    hash = std::rotl(lanes_[0], 1) + std::rotl(lanes_[1], 7) + std::rotl(lanes_[2], 12) +
           std::rotl(lanes_[3], 18);
    for (const std::uint64_t lane : lanes_) hash = merge(hash, lane);
  }
  hash += length_;
  auto rest = std::span(rest_).first(static_cast<std::size_t>(length_ % kStripe));
  for (; rest.size() >= 8; rest = rest.subspan(8)) {
    hash ^= round(0, load<std::uint64_t>(rest.data()));
    hash = std::rotl(hash, 27) * kPrime1 + kPrime4;
  }
  for (; rest.size() >= 4; rest = rest.subspan(4)) {
    hash ^= load<std::uint32_t>(rest.data()) * kPrime1;
    hash = std::rotl(hash, 23) * kPrime2 + kPrime3;
  }
  for (const std::byte byte : rest) {
    hash ^= std::to_integer<std::uint64_t>(byte) * kPrime5;
    hash = std::rotl(hash, 11) * kPrime1;
  }
  return avalanche(hash);
}

std::uint64_t checksum_file(const std::filesystem::path& path, ProgressCount* count) {
  const InputFile file(path);
  std::vector<std::byte> piece(std::size_t{1} << 20);
  Xxh64 hash;
  for (std::int64_t at = 0; at < file.size().count;) {
    const auto length = std::min(std::ssize(piece), file.size().count - at);
    const auto filled = std::span(piece).first(static_cast<std::size_t>(length));
    file.read({at}, filled);
    hash.update(filled);
    at += length;
    if (count != nullptr) count->advance(length);
  }
  return hash.value();
}

std::string to_hexadecimal(std::uint64_t hash) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016jx", static_cast<std::uintmax_t>(hash));
  return text.data();
}

}  // namespace ferry
