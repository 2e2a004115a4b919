// What the kernel says in small files of text: /proc, /sys, control groups.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ferry {

/// The file's first line without its end; empty when it cannot be read.
std::string first_line(const std::filesystem::path& file);

/// The number after `key` in a file of "KEY NUMBER ..." lines (meminfo, vmstat, memory.stat);
/// nothing when there is none.
std::optional<std::int64_t> read_entry(const std::filesystem::path& file, const std::string& key);

/// The text behind the colon of the first line "KEY : TEXT" (cpuinfo, a driver's information);
/// empty when there is none.
std::string text_entry(const std::filesystem::path& file, const std::string& key);

/// The numbers of a list, ascending: "0-2,8" has four. Empty when the file cannot be read.
std::vector<int> number_list(const std::filesystem::path& file);

}  // namespace ferry
