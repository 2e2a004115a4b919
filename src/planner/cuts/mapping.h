// Which device runs which stages: Mobius's cross mapping keeps stages that upload at nearly the
// same time apart on different root complexes.
#pragma once

#include <optional>
#include <vector>

namespace ferry {

/// The sum over pairs of stages of shared(i, j) / |i - j|, where shared is the number of devices
/// under the root complex that hosts both stages and 0 when there is none. `device_of_slot[s]` runs
/// the stages j with j mod N = s; `roots[d]` is device d's root complex, or none for a link of its
/// own.
double contention_degree(const std::vector<std::optional<int>>& roots,
                         const std::vector<int>& device_of_slot, int stages);

/// The mapping of slots to devices with the least contention degree: over all permutations up to
/// eight devices, by exchanging pairs beyond. Ties go to the first in lexicographic order.
std::vector<int> cross_mapping(const std::vector<std::optional<int>>& roots, int stages);

/// The maps 0..P-1, 0..P-1, ... and 0..P-1, P-1..0, ... of stages to devices.
std::vector<int> cyclic_map(int stages, int devices);
std::vector<int> v_map(int stages, int devices);

}  // namespace ferry
