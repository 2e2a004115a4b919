#include "measure.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace ferry {

std::vector<double> median_seconds(const std::vector<Contestant>& contestants, int repeats) {
  std::vector<std::vector<double>> seconds(contestants.size());
  for (const Contestant& contestant : contestants) contestant.run();
  for (int repeat = 0; repeat < repeats; ++repeat) {
    for (std::size_t i = 0; i < contestants.size(); ++i) {
      const auto start = std::chrono::steady_clock::now();
      contestants[i].run();
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
      seconds[i].push_back(taken.count());
    }
  }
  std::vector<double> medians;
  for (auto& list : seconds) {
    const auto middle = list.begin() + static_cast<std::ptrdiff_t>(list.size() / 2);
    std::nth_element(list.begin(), middle, list.end());
    medians.push_back(*middle);
  }
  return medians;
}

void print_figure(const std::string& name, double value, const char* unit) {
  std::printf("%-44s %10.3f %s\n", name.c_str(), value, unit);
}

}  // namespace ferry
