// Cuts a chain of times into exactly a given number of stages, as evenly as can be.
#pragma once

#include <vector>

namespace ferry {

/// One past the last block of each of exactly `stages` stages: the longest stage is as short as can
/// be, and among those cuts the sum of squares is least; ties to earlier cuts. O(n^2 stages).
/// Requires: 1 <= stages <= times.size().
std::vector<int> even_stages(const std::vector<double>& times, int stages);

}  // namespace ferry
