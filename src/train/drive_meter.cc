#include "train/drive_meter.h"

namespace ferry {

DriveBytesByPlace DriveMeter::take() {
  DriveBytesByPlace moved;
  for (const PlaceId id : places_.ids()) {
    const PlaceMemory& place = places_[id];
    if (!place.drive) continue;
    const DriveCounts counts = place.drive->traffic().total();
    DriveBytes& seen = seen_[place.name];
    moved[place.name] = {counts.read - seen.read, counts.written - seen.written};
    seen = {counts.read, counts.written};
  }
  return moved;
}

std::map<std::string, std::string> DriveMeter::io() const {
  std::map<std::string, std::string> ways;
  for (const PlaceId id : places_.ids()) {
    const PlaceMemory& place = places_[id];
    if (place.drive) ways[place.name] = place.drive->io();
  }
  return ways;
}

}  // namespace ferry
