#include "base/fair_share.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace ferry {

std::vector<double> fair_speeds(std::span<const Activity> activities,
                                std::span<const double> capacities) {
  std::vector<double> speeds(activities.size(), 0.0);
  std::vector<bool> growing(activities.size(), true);
  std::vector<double> left(capacities.begin(), capacities.end());
  std::vector<double> growth(capacities.size());

  for (auto open = activities.size(); open > 0;) {
    std::fill(growth.begin(), growth.end(), 0.0);
    double level = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < activities.size(); ++i) {
      if (!growing[i]) continue;
      FERRY_CHECK(activities[i].weight > 0, "an activity needs a positive weight");
      level = std::min(level, (1.0 - speeds[i]) / activities[i].weight);
      for (const Draw& draw : activities[i].draws) {
        growth[draw.pool.index()] += draw.rate * activities[i].weight;
      }
    }
    std::size_t tight = capacities.size();
    for (std::size_t p = 0; p < capacities.size(); ++p) {
      if (growth[p] <= 0) continue;
      if (left[p] / growth[p] < level) {
        level = left[p] / growth[p];
        tight = p;
      }
    }
    level = std::max(level, 0.0);
    for (std::size_t p = 0; p < capacities.size(); ++p) left[p] -= growth[p] * level;
    if (tight < capacities.size()) left[tight] = 0;

    for (std::size_t i = 0; i < activities.size(); ++i) {
      if (!growing[i]) continue;
      speeds[i] += level * activities[i].weight;
      const bool starved = std::any_of(activities[i].draws.begin(), activities[i].draws.end(),
                                       [&](const Draw& draw) {
                                         const auto p = draw.pool.index();
                                         return draw.rate > 0 && left[p] <= 1e-12 * capacities[p];
                                       });
      if (starved || speeds[i] >= 1.0 - 1e-12) {
        growing[i] = false;
        speeds[i] = std::min(speeds[i], 1.0);
        --open;
      }
    }
  }
  return speeds;
}

}  // namespace ferry
