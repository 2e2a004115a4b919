// The files that rows come from, as a job names them.
#pragma once

#include <string>
#include <vector>

namespace ferry {

/// A file, and how often its rows come within an epoch.
struct DataFile {
  std::string path;
  double weight = 1;

  bool operator==(const DataFile&) const = default;
};

using DataFiles = std::vector<DataFile>;

}  // namespace ferry
