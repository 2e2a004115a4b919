#include "data/checksum.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <new>
#include <vector>

#include "base/check.h"
#include "base/input_file.h"

namespace ferry {

Xxh64::Xxh64() : state_(XXH64_createState()) {
  if (!state_) throw std::bad_alloc();
  FERRY_CHECK(XXH64_reset(state_.get(), 0) == XXH_OK, "xxHash begins");
}

void Xxh64::Free::operator()(XXH64_state_s* state) const { XXH64_freeState(state); }

void Xxh64::update(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  FERRY_CHECK(XXH64_update(state_.get(), bytes.data(), bytes.size()) == XXH_OK, "xxHash goes on");
}

std::uint64_t Xxh64::value() const { return XXH64_digest(state_.get()); }

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
