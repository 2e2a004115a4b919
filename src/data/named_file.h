// A file whose path somebody gave: `-o FILE`. Nothing but a regular file is ever replaced.
#pragma once

#include <filesystem>
#include <string>

namespace ferry {

/// Writes `text` to what `path` stands for. A regular file, also one that is yet to be made,
/// appears whole (write_file()); links that lead to it stay. A FIFO, a device or a socket is
/// written into. Throws UserError when it is a directory, ResourceError when it cannot be written.
void write_named_file(const std::filesystem::path& path, const std::string& text);

}  // namespace ferry
