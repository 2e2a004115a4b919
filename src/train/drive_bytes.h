// How many bytes go to and come from a plan's drives.
#pragma once

#include <map>
#include <string>

#include "base/units.h"

namespace ferry {

/// Of one drives' place, in a step or in a run.
struct DriveBytes {
  Bytes read;
  Bytes written;

  bool operator==(const DriveBytes&) const = default;
};

/// By the place's name.
using DriveBytesByPlace = std::map<std::string, DriveBytes>;

}  // namespace ferry
