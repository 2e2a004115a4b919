// Cuts of a chain into consecutive parts: the least heaviest part, and what it costs to balance two
// weights at once.
#pragma once

#include <optional>
#include <vector>

namespace ferry {

/// Part p is [ends[p - 1], ends[p]); the last end is the chain's length. No part is empty.
using Cuts = std::vector<int>;

/// Cuts `weights` into exactly `parts` parts with the least heaviest part and, among those, the
/// least sum of squares; ties go to earlier cuts. Dynamic program, O(n^2 parts).
/// Requires: 1 <= parts <= weights.size().
Cuts min_max_cuts(const std::vector<double>& weights, int parts);

/// The heaviest part of a cut.
double heaviest_part(const std::vector<double>& weights, const Cuts& cuts);

struct LimitedChain {
  std::vector<double> times;
  std::vector<double> sizes;
  std::vector<double> limits;  // one per part: the most that its sizes may add up to
};

/// Cuts into exactly limits.size() parts, each within its limit, with the least longest part; or
/// nothing when no cut is within the limits. O(n^2 parts).
std::optional<Cuts> min_max_cuts_within(const LimitedChain& chain);

/// A cut that no other beats in both weights. Balance is mean / max over the parts.
struct ParetoCut {
  Cuts cuts;
  double time_balance = 0;
  double size_balance = 0;
};

/// All trade-offs between two balances of contiguous cuts into exactly `parts` parts, by decreasing
/// size balance: what Mixed-pipe (FTPipe, USENIX ATC 2021) is measured against. O(n^4 parts) at
/// worst: one dynamic program per distinct part size.
std::vector<ParetoCut> contiguous_pareto(const std::vector<double>& times,
                                         const std::vector<double>& sizes, int parts);

}  // namespace ferry
