// What the kernel says in files of one line: /proc, /sys, control groups.
#pragma once

#include <filesystem>
#include <string>

namespace ferry {

/// The file's first line without its end; empty when it cannot be read.
std::string first_line(const std::filesystem::path& file);

}  // namespace ferry
