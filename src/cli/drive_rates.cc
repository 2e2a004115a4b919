#include "cli/drive_rates.h"

#include <map>
#include <vector>

#include "base/error.h"
#include "spec/drive_array.h"

namespace ferry {
namespace {

namespace fs = std::filesystem;

constexpr const char* kKey = "budget.drive";

bool lacks_rates(const Drive& drive) { return !drive.path.empty() && !has_rates(drive); }

// The folder to measure in.
fs::path folder_of(const Drive& drive, const fs::path& to_be_made) {
  if (!fs::is_directory(drive.path) && fs::path(drive.path) != to_be_made) {
    throw JobKeyError(kKey, "no folder '" + drive.path +
                                "' here, and its rates are not known; make the folder, or give "
                                "its rates: {path: " +
                                drive.path + ", capacity: SIZE, read: RATE, write: RATE}");
  }
  return nearest_folder(drive.path);
}

DriveRates measured(const Drive& drive, const fs::path& folder, const DriveProbe& probe) {
  const auto rates = probe.measure(folder);
  if (rates) return *rates;
  throw JobKeyError(kKey, "the file system of '" + drive.path +
                              "' refuses direct I/O, so its rates cannot be measured; give them: "
                              "{path: " +
                              drive.path + ", capacity: SIZE, read: RATE, write: RATE}");
}

}  // namespace

fs::path nearest_folder(const fs::path& folder) {
  fs::path found = fs::absolute(folder);
  while (!fs::is_directory(found) && found.has_relative_path()) found = found.parent_path();
  return found;
}

void measure_missing_rates(Machine& machine, const fs::path& to_be_made, const DriveProbe& probe) {
  std::map<std::string, std::vector<Drive*>> drives_on;  // by drive of the box
  std::map<std::string, fs::path> folders;
  for (Drive& drive : machine.drives) {
    if (!lacks_rates(drive)) continue;
    const fs::path folder = folder_of(drive, to_be_made);
    const std::string on = probe.drive_of(folder);
    drives_on[on].push_back(&drive);
    folders[on] = folder;
  }
  for (const auto& [on, drives] : drives_on) {
    const DriveRates rates = measured(*drives.front(), folders[on], probe);
    const auto sharers = static_cast<double>(drives.size());
    for (Drive* drive : drives) {
      if (!drive->read.limited()) drive->read = {rates.read / sharers};
      if (!drive->write.limited()) drive->write = {rates.write / sharers};
      drive->duplex = drive->duplex || rates.duplex;
      if (drive->cores == 0) drive->cores = rates.cores / sharers;
    }
  }
}

}  // namespace ferry
