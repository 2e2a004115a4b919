// Coarsens the graph of blocks into about L groups, the units that Mixed-pipe (FTPipe, USENIX ATC
// 2021) assigns to GPUs. Deterministic: no random centers.
#pragma once

#include <vector>

#include "planner/mixed/block_graph.h"

namespace ferry {

/// Deals `seats` to classes in proportion to their weights, by largest remainder: each class gets
/// at least one and at most `capacity` of its own; ties go to the earlier class.
/// Requires: classes <= seats; the vectors are equally long. Returns fewer seats in all only when
/// the capacities allow no more.
std::vector<int> quotas(const std::vector<double>& weights, const std::vector<int>& capacity,
                        int seats);

/// At most `groups` groups of consecutive blocks, in order, every block in one of them. A block's
/// weight is its least time over the GPUs.
///
/// Classes (runs of equal kind) share the groups by quotas(); each is cut by the dynamic program
/// that minimises its heaviest group. Openings and closings are groups of their own or join the
/// class beside them, whichever makes the heaviest group lighter; ties join. Protected runs stay
/// whole. With more classes than groups the lightest neighbouring classes are merged first.
/// Requires: groups >= 1. O(n^2 groups) for each choice of joined openings and closings.
Items coarsen(const BlockGraph& graph, int groups);

}  // namespace ferry
