// The rates of a job's drives, measured where nothing gives them.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "base/progress.h"
#include "spec/machine.h"
#include "store/rates.h"

namespace ferry {

/// How the box is asked about a folder that is there.
struct DriveProbe {
  /// Which drive it is on: equal texts for equal drives.
  std::function<std::string(const std::filesystem::path&)> drive_of;
  /// What that drive does; nothing where its file system refuses direct I/O.
  std::function<std::optional<DriveRates>(const std::filesystem::path&)> measure;
};

/// This box, with sysfs and the measurements of the cache folder.
DriveProbe drives_of_this_box(PhaseListener& listener);

/// What has been measured of the drive that a folder is or will be on, without measuring.
std::optional<DriveRates> known_rates(const std::filesystem::path& folder);

/// The folder itself, or the nearest above it that is there.
std::filesystem::path nearest_folder(const std::filesystem::path& folder);

/// Sets the rates that drives with a path lack. Drives of the machine that are one drive of the box
/// share its rates. A path that is not there stands for the nearest folder above it, when it is
/// `to_be_made`. Throws JobKeyError of `budget.drive` for any other, and where nothing can be
/// measured.
void measure_missing_rates(Machine& machine, const std::filesystem::path& to_be_made,
                           const DriveProbe& probe);

}  // namespace ferry
