// Cuts of a chain into consecutive parts whose costliest is as cheap as can be: into exactly so
// many parts by dynamic programming, into at most so many by filling one after the other.
#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <vector>

namespace ferry {

/// Part p is [ends[p - 1], ends[p]); the last end is the chain's length. No part is empty.
using Cuts = std::vector<int>;

/// What part `part` costs, >= 0, when it is [first, end); kForbidden where it may not be.
using PartCost = std::function<double(int part, int first, int end)>;
inline constexpr double kForbidden = std::numeric_limits<double>::infinity();

/// Which cut is taken where several have an equally cheap costliest part.
enum class CutTies {
  earliest,        // the earliest cuts, from the back
  evenest,         // the least sum of squared costs, then the earliest cuts
  evenest_so_far,  // the least sum of squares among cuts whose every beginning is best, then the
                   // latest cuts
};

/// Cuts `size` elements into exactly `parts` parts whose costliest is cheapest; nothing when every
/// cut has a forbidden part. Dynamic program, O(size^2 parts) costs.
/// Requires: 1 <= parts <= size.
std::optional<Cuts> min_max_cuts(int size, int parts, const PartCost& cost, CutTies ties);

/// The same of parts that weigh what their elements do; ties go to the evenest.
Cuts min_max_cuts(const std::vector<double>& weights, int parts);

/// Weights of the elements, and the most that those of one part may add up to.
struct PartLimit {
  std::vector<double> weights;
  double most = 0;
};

/// How full parts may get beside an element that is heavier than the mean part.
enum class PackFill {
  to_heaviest,  // as the heaviest element: the fewest parts
  to_mean,      // no more than it takes to stay within the number of parts
};

/// At most `parts` parts whose heaviest is lightest, each filled before the next begins; more parts
/// where `limits` close them early. A part of one element may be beyond any limit.
/// Requires: 1 <= parts, and there are weights.
Cuts packed_cuts(const std::vector<double>& weights, int parts, PackFill fill,
                 const std::vector<PartLimit>& limits = {});

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
