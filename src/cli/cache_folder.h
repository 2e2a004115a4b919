// Where what is slow to make is kept from run to run: plans, measurements, token files.
#pragma once

#include <filesystem>
#include <string>

namespace ferry {

/// FERRY_CACHE; without it `.cache` of the current folder; where that cannot be written, `ferry` in
/// the user's cache folder, which is XDG_CACHE_HOME or `.cache` of HOME. It need not be there yet.
std::filesystem::path cache_folder();

/// The file of a room of the cache ("plans") that keeps what depends on all that `key` says. The
/// key belongs into the file too: few keys may have one file.
std::filesystem::path cache_file(const std::string& room, const std::string& key);

/// Where compiled kernels are kept that depend on all that `key` says.
std::filesystem::path kernel_file(const std::string& key);

}  // namespace ferry
