// What a file system can still take.
#pragma once

#include <filesystem>

#include "base/units.h"

namespace ferry {

/// What can be written now to the file system that has `path`; more than anything needs where it
/// tells no limit. Throws UserError when nothing is there, ResourceError when it does not say.
Bytes free_space(const std::filesystem::path& path);

}  // namespace ferry
