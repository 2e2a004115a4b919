#include "planner/cuts/mapping.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace ferry {
namespace {

constexpr std::size_t kEnumeratedDevices = 8;  // 40320 permutations

// nearness[a][b]: the sum of 1 / |i - j| over stages i < j of slots a and b, either way round.
std::vector<std::vector<double>> slot_nearness(std::size_t slots, int stages) {
  std::vector<std::vector<double>> nearness(slots, std::vector<double>(slots, 0.0));
  for (int i = 0; i < stages; ++i) {
    for (int j = i + 1; j < stages; ++j) {
      const std::size_t a = i % slots;
      const std::size_t b = j % slots;
      nearness[std::min(a, b)][std::max(a, b)] += 1.0 / (j - i);
    }
  }
  return nearness;
}

// The number of devices under each device's root complex; 0 without one.
std::vector<double> sharing(const std::vector<std::optional<int>>& roots) {
  std::vector<double> result;
  result.reserve(roots.size());
  for (const auto& root : roots) {
    result.push_back(root ? static_cast<double>(std::count(roots.begin(), roots.end(), root)) : 0);
  }
  return result;
}

class Degrees {
 public:
  Degrees(const std::vector<std::optional<int>>& roots, int stages)
      : roots_(roots), sharing_(sharing(roots)), nearness_(slot_nearness(roots.size(), stages)) {}

  double operator()(const std::vector<int>& device_of_slot) const {
    double degree = 0;
    for (std::size_t a = 0; a < device_of_slot.size(); ++a) {
      const int first = device_of_slot[a];
      for (std::size_t b = a; b < device_of_slot.size(); ++b) {
        const int second = device_of_slot[b];
        if (roots_[first] == roots_[second]) degree += sharing_[first] * nearness_[a][b];
      }
    }
    return degree;
  }

 private:
  const std::vector<std::optional<int>>& roots_;
  std::vector<double> sharing_;
  std::vector<std::vector<double>> nearness_;
};

// Sums in another order differ in the last bits; such mappings are equally good.
bool clearly_less(double a, double b) { return a < b - 1e-9 * std::max(1.0, b); }

}  // namespace

double contention_degree(const std::vector<std::optional<int>>& roots,
                         const std::vector<int>& device_of_slot, int stages) {
  return Degrees(roots, stages)(device_of_slot);
}

std::vector<int> cross_mapping(const std::vector<std::optional<int>>& roots, int stages) {
  const Degrees degrees(roots, stages);
  std::vector<int> mapping(roots.size());
  std::iota(mapping.begin(), mapping.end(), 0);
  std::vector<int> best = mapping;
  double least = degrees(best);
  if (roots.size() <= kEnumeratedDevices) {
    while (std::next_permutation(mapping.begin(), mapping.end())) {
      const double degree = degrees(mapping);
      if (clearly_less(degree, least)) {
        least = degree;
        best = mapping;
      }
    }
    return best;
  }
  for (bool improved = true; improved;) {
    improved = false;
    for (std::size_t a = 0; a < best.size(); ++a) {
      for (std::size_t b = a + 1; b < best.size(); ++b) {
        mapping = best;
        std::swap(mapping[a], mapping[b]);
        const double degree = degrees(mapping);
        if (!clearly_less(degree, least)) continue;
        least = degree;
        best = mapping;
        improved = true;
      }
    }
  }
  return best;
}

std::vector<int> cyclic_map(int stages, int devices) {
  std::vector<int> map;
  for (int s = 0; s < stages; ++s) map.push_back(s % devices);
  return map;
}

std::vector<int> v_map(int stages, int devices) {
  std::vector<int> map;
  for (int s = 0; s < stages; ++s) {
    const bool back = s / devices % 2 == 1;
    map.push_back(back ? devices - 1 - s % devices : s % devices);
  }
  return map;
}

}  // namespace ferry
