// Writing a text to an open file.
#pragma once

#include <filesystem>
#include <string_view>

namespace ferry {

/// Writes all of it where the file stands. Throws ResourceError that names `path` when the system
/// takes no more.
void write_all(int descriptor, std::string_view text, const std::filesystem::path& path);

}  // namespace ferry
