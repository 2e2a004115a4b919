#include "spec/kernel_file.h"

#include <fstream>
#include <sstream>

#include "spec/quantity.h"

namespace ferry {

std::string first_line(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

std::optional<std::int64_t> read_entry(const std::filesystem::path& file, const std::string& key) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    std::istringstream words(line);
    std::string name, number;
    if (words >> name >> number && name == key) return parse_whole(number);
  }
  return std::nullopt;
}

std::string text_entry(const std::filesystem::path& file, const std::string& key) {
  constexpr const char* kBlanks = " \t";
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t colon = line.find_first_not_of(kBlanks, key.size());
    if (colon == std::string::npos || line[colon] != ':') continue;
    const std::size_t begin = line.find_first_not_of(kBlanks, colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

std::vector<int> number_list(const std::filesystem::path& file) {
  std::istringstream ranges(first_line(file));
  std::vector<int> numbers;
  for (std::string range; std::getline(ranges, range, ',');) {
    const std::size_t dash = range.find('-');
    const auto first = parse_whole(range.substr(0, dash));
    const auto last = dash == std::string::npos ? first : parse_whole(range.substr(dash + 1));
    if (!first || !last) continue;
    for (auto number = *first; number <= *last; ++number)
      numbers.push_back(static_cast<int>(number));
  }
  return numbers;
}

}  // namespace ferry
