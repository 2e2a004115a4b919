#include "cli/drives_here.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>

#include "base/error.h"
#include "spec/drive_array.h"

namespace ferry {
namespace {

/// Why training cannot use the drive; empty: it can.
std::string what_lacks(const Drive& drive) {
  if (drive.path.empty()) return "path";
  if (!drive.read.limited()) return "read";
  return drive.write.limited() ? "" : "write";
}

}  // namespace

void require_drive_folders(const Machine& machine) {
  for (const Drive& drive : machine.drives) {
    if (drive.path.empty() || std::filesystem::is_directory(drive.path)) continue;
    throw UserError(machine.source.text + ": drive " + drive.name + ": its path " + drive.path +
                    " is no folder; expected one on that drive\n  try: mkdir -p " + drive.path +
                    ", or leave the drive out");
  }
}

void keep_usable_drives(Machine& machine, bool none, PhaseListener& listener) {
  std::erase_if(machine.drives, [&](const Drive& drive) {
    const std::string lacking = what_lacks(drive);
    if (!none && !lacking.empty()) {
      listener.phase("drive " + drive.name + " is left out: the machine file gives no `" + lacking +
                     "`");
    }
    return none || !lacking.empty();
  });
}

std::vector<SwapNeed> swap_needs(const TrainSetup& setup) {
  std::vector<SwapNeed> files;
  std::vector<const Plan*> plans = {&setup.plan};
  if (setup.evaluation) plans.push_back(&*setup.evaluation);
  for (const PlaceId id : setup.plan.places.ids()) {
    const Place& place = setup.plan.places[id];
    if (place.kind != PlaceKind::drive) continue;
    const auto bytes = static_cast<double>(peak_bytes(plans, id).count);
    const std::vector<double> shares = drive_shares(setup.machine, place.budget);
    for (std::size_t i = 0; i < shares.size(); ++i) {
      if (shares[i] <= 0) continue;
      files.push_back({setup.machine.drives[i].path,
                       Bytes{static_cast<std::int64_t>(std::ceil(shares[i] * bytes))}});
    }
  }
  return files;
}

}  // namespace ferry
