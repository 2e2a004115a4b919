#include "planner/cuts/contiguous.h"

#include <algorithm>
#include <compare>
#include <cstddef>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace ferry {
namespace {

std::vector<double> prefix_sums(const std::vector<double>& weights) {
  std::vector<double> sums(weights.size() + 1, 0.0);
  std::partial_sum(weights.begin(), weights.end(), sums.begin() + 1);
  return sums;
}

// Of the parts of a cut, compared in this order; what does not count stays 0.
struct CutCost {
  double costliest = 0;
  double squares = 0;
  auto operator<=>(const CutCost&) const = default;
};

// What of a cut counts, and which of equal ones is taken.
struct CutRule {
  bool costliest;
  bool squares;
  bool latest;
};

struct RatedCuts {
  Cuts ends;
  CutCost cost;
};

// best[p][end]: of cutting the first `end` elements into p parts.
std::optional<RatedCuts> best_cuts(int size, int parts, const PartCost& cost, CutRule rule) {
  struct Best {
    CutCost cost = {kForbidden, kForbidden};
    int first = -1;  // of the last part
  };
  std::vector<std::vector<Best>> best(parts + 1, std::vector<Best>(size + 1));
  best[0][0].cost = {};
  for (int p = 1; p <= parts; ++p) {
    for (int end = p; end <= size - (parts - p); ++end) {
      Best& here = best[p][end];
      for (int tried = 0; tried <= end - p; ++tried) {
        const int first = rule.latest ? end - 1 - tried : p - 1 + tried;
        CutCost made = best[p - 1][first].cost;
        if (made.costliest == kForbidden) continue;
        const double part = cost(p - 1, first, end);
        if (part == kForbidden) continue;
        if (rule.costliest) made.costliest = std::max(made.costliest, part);
        if (rule.squares) made.squares += part * part;
        if (made < here.cost) here = {made, first};
      }
    }
  }
  const CutCost reached = best.back().back().cost;
  if (reached.costliest == kForbidden) return std::nullopt;
  Cuts ends(parts);
  int end = size;
  for (int p = parts; p > 0; --p) {
    ends[p - 1] = end;
    end = best[p][end].first;
  }
  return RatedCuts{std::move(ends), reached};
}

// Parts of at most `most` each, one filled after the other.
Cuts filled(const std::vector<double>& weights, double most, const std::vector<PartLimit>& limits) {
  // So that the bisection's rounding never parts equal sums.
  constexpr double kSlack = 1 + 1e-12;
  Cuts ends;
  double weight = 0;
  std::vector<double> taken(limits.size(), 0.0);
  for (std::size_t b = 0; b < weights.size(); ++b) {
    bool full = weight + weights[b] > most * kSlack;
    for (std::size_t l = 0; l < limits.size(); ++l) {
      full = full || taken[l] + limits[l].weights[b] > limits[l].most;
    }
    if (b > 0 && full) {
      ends.push_back(static_cast<int>(b));
      weight = 0;
      std::ranges::fill(taken, 0.0);
    }
    weight += weights[b];
    for (std::size_t l = 0; l < limits.size(); ++l) taken[l] += limits[l].weights[b];
  }
  ends.push_back(static_cast<int>(weights.size()));
  return ends;
}

double between(const std::vector<double>& sums, int first, int end) {
  return sums[end] - sums[first];
}

double balance(const std::vector<double>& weights, const Cuts& cuts) {
  const double heaviest = heaviest_part(weights, cuts);
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  return heaviest > 0 ? total / static_cast<double>(cuts.size()) / heaviest : 1;
}

}  // namespace

double heaviest_part(const std::vector<double>& weights, const Cuts& cuts) {
  double heaviest = 0;
  int first = 0;
  for (const int end : cuts) {
    heaviest =
        std::max(heaviest, std::accumulate(weights.begin() + first, weights.begin() + end, 0.0));
    first = end;
  }
  return heaviest;
}

std::optional<Cuts> min_max_cuts(int size, int parts, const PartCost& cost, CutTies ties) {
  FERRY_CHECK(parts >= 1 && parts <= size, "a chain has at most as many parts as elements");
  const bool so_far = ties == CutTies::evenest_so_far;
  const auto lightest =
      best_cuts(size, parts, cost, {.costliest = true, .squares = so_far, .latest = so_far});
  if (!lightest) return std::nullopt;
  if (ties != CutTies::evenest) return lightest->ends;
  const auto within = [&](int part, int first, int end) {
    const double own = cost(part, first, end);
    return own <= lightest->cost.costliest ? own : kForbidden;
  };
  return best_cuts(size, parts, within, {.costliest = false, .squares = true, .latest = false})
      ->ends;
}

Cuts min_max_cuts(const std::vector<double>& weights, int parts) {
  const std::vector<double> sums = prefix_sums(weights);
  const auto weigh = [&](int, int first, int end) { return between(sums, first, end); };
  return min_max_cuts(static_cast<int>(weights.size()), parts, weigh, CutTies::evenest).value();
}

// By bisection on how full parts may get.
Cuts packed_cuts(const std::vector<double>& weights, int parts, PackFill fill,
                 const std::vector<PartLimit>& limits) {
  FERRY_CHECK(!weights.empty() && parts >= 1, "something to cut, into at least one part");
  constexpr int kHalvings = 60;
  double enough = std::accumulate(weights.begin(), weights.end(), 0.0);
  double too_little =
      fill == PackFill::to_mean ? enough / parts : *std::ranges::max_element(weights);
  Cuts best = filled(weights, enough, limits);
  for (int i = 0; i < kHalvings && too_little < enough; ++i) {
    const double middle = too_little + (enough - too_little) / 2;
    Cuts tried = filled(weights, middle, limits);
    if (static_cast<int>(tried.size()) <= parts) {
      best = std::move(tried);
      enough = middle;
    } else {
      too_little = middle;
    }
  }
  return best;
}

std::optional<Cuts> min_max_cuts_within(const LimitedChain& chain) {
  const int parts = static_cast<int>(chain.limits.size());
  const int size = static_cast<int>(chain.times.size());
  if (parts < 1 || parts > size) return std::nullopt;
  const std::vector<double> times = prefix_sums(chain.times);
  const std::vector<double> sizes = prefix_sums(chain.sizes);
  const auto cost = [&](int part, int first, int end) {
    const bool within = between(sizes, first, end) <= chain.limits[part];
    return within ? between(times, first, end) : kForbidden;
  };
  return min_max_cuts(size, parts, cost, CutTies::earliest);
}

std::vector<ParetoCut> contiguous_pareto(const std::vector<double>& times,
                                         const std::vector<double>& sizes, int parts) {
  const std::vector<double> sums = prefix_sums(sizes);
  std::vector<double> limits;
  for (std::size_t first = 0; first < sizes.size(); ++first) {
    for (std::size_t end = first + 1; end <= sizes.size(); ++end) {
      limits.push_back(sums[end] - sums[first]);
    }
  }
  std::ranges::sort(limits);
  const auto rest = std::ranges::unique(limits);
  limits.erase(rest.begin(), rest.end());

  std::vector<ParetoCut> pareto;
  double least = kForbidden;
  for (const double limit : limits) {
    const LimitedChain chain{times, sizes,
                             std::vector<double>(static_cast<std::size_t>(parts), limit)};
    const std::optional<Cuts> cuts = min_max_cuts_within(chain);
    if (!cuts) continue;
    const double longest = heaviest_part(times, *cuts);
    if (longest >= least * (1 - 1e-12)) continue;
    least = longest;
    pareto.push_back({*cuts, balance(times, *cuts), balance(sizes, *cuts)});
  }
  return pareto;
}

}  // namespace ferry
