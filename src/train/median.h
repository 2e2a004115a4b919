// The middle of what was seen several times.
#pragma once

#include <algorithm>
#include <vector>

namespace ferry {

/// The upper one of two in the middle. Requires: values.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace ferry
