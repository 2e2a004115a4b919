// Where what is slow to make is kept from run to run: plans, measurements, token files.
#pragma once

#include <filesystem>

namespace ferry {

/// FERRY_CACHE; without it `.cache` of the current folder; where that cannot be written, `ferry` in
/// the user's cache folder, which is XDG_CACHE_HOME or `.cache` of HOME. It need not be there yet.
std::filesystem::path cache_folder();

}  // namespace ferry
