// What the kernel says in small files of text: /proc, /sys, control groups.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace ferry {

/// The file's first line without its end; empty when it cannot be read.
std::string first_line(const std::filesystem::path& file);

/// The number after `key` in a file of "KEY NUMBER ..." lines (meminfo, vmstat, memory.stat);
/// nothing when there is none.
std::optional<std::int64_t> read_entry(const std::filesystem::path& file, const std::string& key);

/// The text behind the colon of the first line "KEY : TEXT" (cpuinfo, a driver's information);
/// empty when there is none.
std::string text_entry(const std::filesystem::path& file, const std::string& key);

}  // namespace ferry
