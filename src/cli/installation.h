// Where the program finds what belongs to it. Paths count from the program's own folder, so that a
// source folder, an environment or a package may be moved; where nothing stands there, what was
// there when the program was built.
#pragma once

#include <filesystem>

namespace ferry {

/// The folder of the program that runs. Throws ResourceError when the system does not tell it.
std::filesystem::path program_folder();

/// The interpreter with the packages of tools/ferry_tools.
std::filesystem::path python_interpreter();

/// The folder that holds ferry_tools.
std::filesystem::path python_tools_folder();

/// The folder of the published servers' machine files.
std::filesystem::path machines_folder();

/// `beside`, counted from `folder`, where that exists; else `built`.
std::filesystem::path beside_or_built(const std::filesystem::path& folder,
                                      const std::filesystem::path& beside,
                                      const std::filesystem::path& built);

}  // namespace ferry
