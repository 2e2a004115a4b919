// A token file: samples of token ids, each id with a flag that says whether it is learned.
// Written by tools/ferry_tools, described in docs/formats/tokens.md. Checked completely when
// opened, so that a sample needs no checks later.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/input_file.h"
#include "base/units.h"

namespace ferry {

/// One sample: a row of the data. Lifetime: that of the TokenFile.
struct Sample {
  std::span<const std::uint32_t> ids;     // at least one
  std::span<const std::uint8_t> learned;  // 1 where the id is learned, else 0; one per id
};

/// A mapped token file. It should not change while it is open (ferry_tools writes it under a
/// temporary name and renames it). Safe to read from any thread.
class TokenFile {
 public:
  /// Opens and checks a file. Throws UserError naming file and what is wrong. `source`: what its
  /// rows were made from, in the user's words; empty: the file itself.
  explicit TokenFile(const std::filesystem::path& path, std::string source = {})
      : TokenFile(path, Check::all, std::move(source)) {}
  TokenFile(TokenFile&& other) noexcept;
  TokenFile& operator=(TokenFile&&) = delete;
  ~TokenFile();

  /// How many samples there are; at least one.
  std::int64_t size() const { return samples_; }
  std::int64_t tokens() const { return tokens_; }
  std::int64_t learned() const { return learned_; }
  /// Every id is below this.
  std::uint32_t vocabulary() const { return vocabulary_; }
  std::optional<std::uint32_t> end_token() const { return end_token_; }
  /// SHA-256 of what the file was made from, in lower-case hexadecimal.
  const std::string& source_hash() const { return source_hash_; }
  const std::filesystem::path& path() const { return file_.path(); }
  /// What messages about the rows, not the file, begin with.
  std::string source() const { return source_.empty() ? path().string() : source_; }
  /// Whether its contents are others than when it was opened. Samples are those then; of a file
  /// that has become shorter none can be read. Reads the file where it was written to, else little.
  /// Not from two threads at once.
  bool has_changed();
  /// XXH64 of all that is learned from: vocabulary, end token, where samples begin, ids and flags.
  std::uint64_t contents_hash() const { return hash_; }

  /// Requires: 0 <= number < size().
  Sample sample(std::int64_t number) const;

  /// Throws UserError when the file's vocabulary exceeds the model's.
  void require_vocabulary(std::int64_t model_vocabulary) const;

 private:
  enum class Check { header, all };
  friend void check_token_header(const std::filesystem::path& path, std::int64_t vocabulary);

  TokenFile(const std::filesystem::path& path, Check check, std::string source);
  void read_header();
  void check_contents() const;
  std::uint64_t hash_of_contents() const;
  template <typename T>
  std::span<const T> section(std::int64_t offset, std::int64_t count) const;

  InputFile file_;
  std::string source_;
  std::int64_t written_ = 0;           // when the file was, in ns, when it was looked at last
  std::span<const std::byte> mapped_;  // empty after a move
  std::int64_t samples_ = 0, tokens_ = 0, learned_ = 0;
  std::uint32_t vocabulary_ = 0;
  std::optional<std::uint32_t> end_token_;
  std::string source_hash_;
  std::uint64_t hash_ = 0;                  // of the contents when they were checked
  std::span<const std::uint64_t> offsets_;  // samples_ + 1, ascending, from 0 to tokens_
  std::span<const std::uint32_t> ids_;
  std::span<const std::uint8_t> flags_;
};

/// Throws UserError unless the file has the header of a token file, as many bytes as that says, and
/// ids below the model's `vocabulary` by its own account. Reads no tokens.
void check_token_header(const std::filesystem::path& path, std::int64_t vocabulary);

}  // namespace ferry
