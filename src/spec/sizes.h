// Sizes as a file gives them for several things at once.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/units.h"

namespace ferry {

/// One size for all; or, where one of these is not empty, one for each in order or some by name.
struct Sizes {
  Bytes each = {};
  std::vector<Bytes> in_order = {};
  std::map<std::string, Bytes> by_name = {};

  bool operator==(const Sizes&) const = default;
};

}  // namespace ferry
