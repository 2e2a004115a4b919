#include "data/tokens.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/input_file.h"
#include "data/checksum.h"

namespace ferry {
namespace {

static_assert(std::endian::native == std::endian::little);

// As docs/formats/tokens.md lists it.
struct FileHeader {
  std::array<char, 8> magic;
  std::uint32_t version;
  std::uint32_t vocabulary;
  std::uint32_t end_token;
  std::uint32_t reserved;
  std::uint64_t samples;
  std::uint64_t tokens;
  std::uint64_t learned;
  std::array<std::uint8_t, 32> source_hash;
};
static_assert(sizeof(FileHeader) == 80);

constexpr std::array<char, 8> kMagic = {'F', 'E', 'R', 'R', 'Y', 'T', 'O', 'K'};
constexpr std::uint32_t kVersion = 1;
constexpr std::uint32_t kNoToken = 0xFFFFFFFF;
constexpr std::uint64_t kMostSamples = 0x7FFFFFFF;           // their numbers are held in 32 bits
constexpr std::uint64_t kMaxCount = std::uint64_t{1} << 48;  // keeps all arithmetic in 63 bits

std::string hexadecimal(std::span<const std::uint8_t> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::span<const std::byte> map(const InputFile& file) {
  const std::string name = file.path().string();
  const auto size = static_cast<std::size_t>(file.size().count);
  if (size < sizeof(FileHeader)) {
    throw UserError(name + ": not a token file: " + std::to_string(size) +
                    " bytes, expected at least " + std::to_string(sizeof(FileHeader)));
  }
  void* const start = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
  if (start == MAP_FAILED) throw system_error("cannot map " + name, errno);
  return {static_cast<const std::byte*>(start), size};
}

struct stat status_of(const InputFile& file) {
  struct stat status = {};
  if (fstat(file.descriptor(), &status) == 0) return status;
  throw system_error("cannot look at " + file.path().string(), errno);
}

std::int64_t time_written(const struct stat& status) {
  constexpr std::int64_t kNanoseconds = 1'000'000'000;
  return status.st_mtim.tv_sec * kNanoseconds + status.st_mtim.tv_nsec;
}

void unmap(std::span<const std::byte> mapped) {
  if (!mapped.empty()) munmap(const_cast<std::byte*>(mapped.data()), mapped.size());
}

}  // namespace

TokenFile::TokenFile(const std::filesystem::path& path, Check check, std::string source)
    : file_(path),
      source_(std::move(source)),
      written_(time_written(status_of(file_))),
      mapped_(map(file_)) {
  try {
    read_header();
    if (check == Check::all) check_contents();
    if (check == Check::all) hash_ = hash_of_contents();
  } catch (...) {
    unmap(mapped_);
    throw;
  }
}

TokenFile::TokenFile(TokenFile&& other) noexcept
    : file_(std::move(other.file_)),
      source_(std::move(other.source_)),
      written_(other.written_),
      mapped_(std::exchange(other.mapped_, {})),
      samples_(other.samples_),
      tokens_(other.tokens_),
      learned_(other.learned_),
      vocabulary_(other.vocabulary_),
      end_token_(other.end_token_),
      source_hash_(std::move(other.source_hash_)),
      hash_(other.hash_),
      offsets_(other.offsets_),
      ids_(other.ids_),
      flags_(other.flags_) {}

TokenFile::~TokenFile() { unmap(mapped_); }

template <typename T>
std::span<const T> TokenFile::section(std::int64_t offset, std::int64_t count) const {
  return {reinterpret_cast<const T*>(mapped_.data() + offset), static_cast<std::size_t>(count)};
}

void TokenFile::read_header() {
  const std::string name = path().string();
  FileHeader header;
  std::memcpy(&header, mapped_.data(), sizeof header);
  if (header.magic != kMagic) throw UserError(name + ": not a token file: wrong first bytes");
  if (header.version != kVersion) {
    throw UserError(name + ": token file version " + std::to_string(header.version) +
                    ", expected 1; tokenise the data again");
  }
  if (header.reserved != 0) {
    throw UserError(name + ": damaged: its reserved field is " + std::to_string(header.reserved) +
                    ", expected 0");
  }
  if (header.samples == 0 || header.samples > kMaxCount || header.tokens > kMaxCount) {
    throw UserError(name + ": damaged: " + std::to_string(header.samples) + " samples of " +
                    std::to_string(header.tokens) + " tokens in all");
  }
  if (header.samples > kMostSamples) {
    throw UserError(name + ": " + std::to_string(header.samples) +
                    " samples; ferry takes at most " + std::to_string(kMostSamples));
  }
  samples_ = static_cast<std::int64_t>(header.samples);
  tokens_ = static_cast<std::int64_t>(header.tokens);
  learned_ = static_cast<std::int64_t>(std::min(header.learned, kMaxCount));
  vocabulary_ = header.vocabulary;
  if (header.end_token != kNoToken) end_token_ = header.end_token;
  source_hash_ = hexadecimal(header.source_hash);

  const auto offsets_at = static_cast<std::int64_t>(sizeof header);
  const std::int64_t ids_at = offsets_at + 8 * (samples_ + 1);
  const std::int64_t flags_at = ids_at + 4 * tokens_;
  if (flags_at + tokens_ != std::ssize(mapped_)) {
    throw UserError(name + ": damaged: " + std::to_string(mapped_.size()) +
                    " bytes, its header says " + std::to_string(flags_at + tokens_));
  }
  offsets_ = section<std::uint64_t>(offsets_at, samples_ + 1);
  ids_ = section<std::uint32_t>(ids_at, tokens_);
  flags_ = section<std::uint8_t>(flags_at, tokens_);
}

void TokenFile::check_contents() const {
  const std::string damaged = path().string() + ": damaged: ";
  if (offsets_.front() != 0 || offsets_.back() != static_cast<std::uint64_t>(tokens_)) {
    throw UserError(damaged + "its samples do not cover its tokens");
  }
  for (std::size_t i = 0; i + 1 < offsets_.size(); ++i) {
    if (offsets_[i] >= offsets_[i + 1]) {
      throw UserError(damaged + "sample " + std::to_string(i) + " is empty or out of order");
    }
  }
  if (end_token_ && *end_token_ >= vocabulary_) {
    throw UserError(damaged + "its end token is outside its vocabulary");
  }
  const auto outside = std::ranges::find_if(ids_, [this](auto id) { return id >= vocabulary_; });
  if (outside != ids_.end()) {
    throw UserError(damaged + "token " + std::to_string(outside - ids_.begin()) + " has id " +
                    std::to_string(*outside) + ", its vocabulary is " +
                    std::to_string(vocabulary_));
  }
  if (std::ranges::any_of(flags_, [](auto flag) { return flag > 1; })) {
    throw UserError(damaged + "a learn flag is neither 0 nor 1");
  }
  if (std::accumulate(flags_.begin(), flags_.end(), std::int64_t{0}) != learned_) {
    throw UserError(damaged + "its count of learned tokens is wrong");
  }
}

std::uint64_t TokenFile::hash_of_contents() const {
  Xxh64 hash;
  const std::array numbers = {vocabulary_, end_token_.value_or(kNoToken)};
  hash.update(std::as_bytes(std::span(numbers)));
  hash.update(std::as_bytes(offsets_));
  hash.update(std::as_bytes(ids_));
  hash.update(std::as_bytes(flags_));
  return hash.value();
}

bool TokenFile::has_changed() {
  struct stat status = {};
  if (fstat(file_.descriptor(), &status) != 0) return true;  // as a server says of a removed file
  if (status.st_size < std::ssize(mapped_)) return true;
  if (std::exchange(written_, time_written(status)) == time_written(status)) return false;
  return hash_of_contents() != hash_;
}

void check_token_header(const std::filesystem::path& path, std::int64_t vocabulary) {
  TokenFile(path, TokenFile::Check::header, {}).require_vocabulary(vocabulary);
}

Sample TokenFile::sample(std::int64_t number) const {
  FERRY_CHECK(number >= 0 && number < samples_, "a sample that is not in the file");
  const auto i = static_cast<std::size_t>(number);
  const auto begin = static_cast<std::size_t>(offsets_[i]);
  const auto count = static_cast<std::size_t>(offsets_[i + 1]) - begin;
  return {ids_.subspan(begin, count), flags_.subspan(begin, count)};
}

void TokenFile::require_vocabulary(std::int64_t model_vocabulary) const {
  if (vocabulary_ <= model_vocabulary) return;
  throw UserError(source() + ": vocabulary of " + std::to_string(vocabulary_) +
                  " ids, the model's has " + std::to_string(model_vocabulary) +
                  "; tokenise with the model's own tokenizer");
}

}  // namespace ferry
