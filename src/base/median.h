// The middle of what was seen several times.
#pragma once

#include <algorithm>
#include <vector>

namespace ferry {

/// Of an even number the mean of the two in the middle. Requires: values.
template <typename T>
T median(std::vector<T> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) * 0.5;
}

}  // namespace ferry
