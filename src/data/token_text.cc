#include "data/token_text.h"

#include <sstream>
#include <vector>

namespace ferry {
namespace {

template <typename T>
void append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace

std::string token_file_bytes(const std::string& text, std::uint32_t vocabulary,
                             std::uint32_t end_token) {
  std::vector<std::uint64_t> offsets = {0};
  std::string ids, flags;
  std::uint64_t learned = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      const bool is_learned = word.front() == '*';
      append(ids, static_cast<std::uint32_t>(std::stoul(word.substr(is_learned ? 1 : 0))));
      flags += is_learned ? '\1' : '\0';
      learned += is_learned ? 1 : 0;
    }
    offsets.push_back(flags.size());
  }
  std::string bytes = "FERRYTOK";
  append(bytes, std::uint32_t{1});
  append(bytes, vocabulary);
  append(bytes, end_token);
  append(bytes, std::uint32_t{0});
  append(bytes, std::uint64_t{offsets.size() - 1});
  append(bytes, std::uint64_t{flags.size()});
  append(bytes, learned);
  for (int i = 0; i < 32; ++i) append(bytes, static_cast<std::uint8_t>(i));
  for (const std::uint64_t offset : offsets) append(bytes, offset);
  return bytes + ids + flags;
}

}  // namespace ferry
