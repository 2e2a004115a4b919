// Measuring several things against each other on a machine that is not quiet: the things take
// turns, and the medians are compared, so that what disturbs one disturbs all.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace ferry {

struct Subject {
  std::string name;
  std::function<void()> run;
};

/// What one run took: by the clock, and in processor time summed over all threads of this process.
/// On a machine that others use too, processor time says more, unless the code waits by spinning.
struct Seconds {
  double wall = 0;
  double cpu = 0;
};

/// Runs every subject once to warm up, then all of them in turn `repeats` times. Returns each
/// one's medians. Requires: repeats > 0.
std::vector<Seconds> median_seconds(const std::vector<Subject>& subjects, int repeats);

/// Prints one figure as a line "name value unit".
void print_figure(const std::string& name, double value, const char* unit);

}  // namespace ferry
