#include "measure.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

namespace ferry {

namespace {

double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

std::vector<Seconds> median_seconds(const std::vector<Subject>& subjects, int repeats) {
  std::vector<std::vector<double>> wall(subjects.size()), cpu(subjects.size());
  for (const Subject& subject : subjects) subject.run();
  for (int repeat = 0; repeat < repeats; ++repeat) {
    for (std::size_t i = 0; i < subjects.size(); ++i) {
      // OpenMP's threads spin for a while after their work, on cores that the next one needs.
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      const double cpu_start = processor_seconds();
      const auto start = std::chrono::steady_clock::now();
      subjects[i].run();
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
      wall[i].push_back(taken.count());
      cpu[i].push_back(processor_seconds() - cpu_start);
    }
  }
  std::vector<Seconds> medians;
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    medians.push_back({median(wall[i]), median(cpu[i])});
  }
  return medians;
}

void print_figure(const std::string& name, double value, const char* unit) {
  std::printf("%-44s %10.3f %s\n", name.c_str(), value, unit);
}

}  // namespace ferry
