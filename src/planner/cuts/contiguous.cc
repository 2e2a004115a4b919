#include "planner/cuts/contiguous.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <numeric>

#include "base/check.h"

namespace ferry {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

std::vector<double> prefix_sums(const std::vector<double>& weights) {
  std::vector<double> sums(weights.size() + 1, 0.0);
  std::partial_sum(weights.begin(), weights.end(), sums.begin() + 1);
  return sums;
}

// cost(part, first, end) of one part, and how costs add up along the chain.
struct CutCosts {
  std::function<double(int, int, int)> part;  // kNever: not allowed
  bool adds = false;                          // sum of the parts' costs, or their maximum
};

// best[p][end]: least cost of cutting the first `end` elements into p parts.
std::optional<Cuts> best_cuts(int size, int parts, const CutCosts& costs) {
  const auto n = static_cast<std::size_t>(size);
  const auto row = n + 1;
  std::vector<double> best((static_cast<std::size_t>(parts) + 1) * row, kNever);
  std::vector<int> cut(best.size(), -1);
  best[0] = costs.adds ? 0 : -kNever;
  for (int p = 1; p <= parts; ++p) {
    for (int end = p; end <= size - (parts - p); ++end) {
      const std::size_t here = static_cast<std::size_t>(p) * row + static_cast<std::size_t>(end);
      for (int first = p - 1; first < end; ++first) {
        const double before =
            best[(static_cast<std::size_t>(p) - 1) * row + static_cast<std::size_t>(first)];
        if (before == kNever) continue;
        const double part = costs.part(p - 1, first, end);
        const double cost = costs.adds ? before + part : std::max(before, part);
        if (cost < best[here]) {
          best[here] = cost;
          cut[here] = first;
        }
      }
    }
  }
  if (best.back() == kNever) return std::nullopt;
  Cuts ends(static_cast<std::size_t>(parts));
  int end = size;
  for (int p = parts; p > 0; --p) {
    ends[static_cast<std::size_t>(p) - 1] = end;
    end = cut[static_cast<std::size_t>(p) * row + static_cast<std::size_t>(end)];
  }
  return ends;
}

double between(const std::vector<double>& sums, int first, int end) {
  return sums[static_cast<std::size_t>(end)] - sums[static_cast<std::size_t>(first)];
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

Cuts min_max_cuts(const std::vector<double>& weights, int parts) {
  FERRY_CHECK(parts >= 1 && static_cast<std::size_t>(parts) <= weights.size(),
              "a chain has at most as many parts as elements");
  const std::vector<double> sums = prefix_sums(weights);
  const int size = static_cast<int>(weights.size());
  const auto weigh = [&](int, int first, int end) { return between(sums, first, end); };
  const Cuts lightest = best_cuts(size, parts, {weigh, false}).value();
  double limit = 0;
  int first_of_part = 0;
  for (const int end : lightest) {
    limit = std::max(limit, between(sums, first_of_part, end));
    first_of_part = end;
  }
  const auto squares = [&](int, int first, int end) {
    const double weight = between(sums, first, end);
    return weight <= limit ? weight * weight : kNever;
  };
  return best_cuts(size, parts, {squares, true}).value();
}

std::optional<Cuts> min_max_cuts_within(const LimitedChain& chain) {
  const int parts = static_cast<int>(chain.limits.size());
  const int size = static_cast<int>(chain.times.size());
  if (parts < 1 || parts > size) return std::nullopt;
  const std::vector<double> times = prefix_sums(chain.times);
  const std::vector<double> sizes = prefix_sums(chain.sizes);
  const auto cost = [&](int part, int first, int end) {
    const bool within = between(sizes, first, end) <= chain.limits[static_cast<std::size_t>(part)];
    return within ? between(times, first, end) : kNever;
  };
  return best_cuts(size, parts, {cost, false});
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
  double least = kNever;
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
