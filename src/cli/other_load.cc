#include "cli/other_load.h"

#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <sstream>
#include <string>

namespace ferry {
namespace {

// The kernel counts in ticks of 10 ms.
constexpr double kShortest = 0.2;  // seconds
constexpr double kLeastCores = 0.25, kLeastShare = 0.1;

/// "cpu1 user nice system idle iowait irq softirq steal ...", in ticks. Idle and waiting is no
/// work.
double ticks_worked(std::istringstream& counts) {
  enum { user, nice, system, idle, iowait, irq, softirq, steal, kCounts };
  std::array<double, kCounts> ticks{};
  for (double& count : ticks) counts >> count;
  return ticks[user] + ticks[nice] + ticks[system] + ticks[irq] + ticks[softirq] + ticks[steal];
}

}  // namespace

CoreSeconds core_seconds(const std::filesystem::path& root) {
  CoreSeconds now{
      .passed = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
                    .count()};
  timespec used{};
  if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) == 0) {
    now.own = static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
  }
  cpu_set_t mine;
  CPU_ZERO(&mine);
  const bool knows_mine = sched_getaffinity(0, sizeof(mine), &mine) == 0;
  std::ifstream stat(root / "proc/stat");
  std::string line;
  int cores = 0;
  double ticks = 0;
  while (std::getline(stat, line) && line.starts_with("cpu")) {
    std::istringstream counts(line.substr(3));
    int core = 0;
    if (line[3] == ' ' || !(counts >> core)) continue;  // the sum of all
    if (knows_mine && (core >= CPU_SETSIZE || !CPU_ISSET(core, &mine))) continue;
    ++cores;
    ticks += ticks_worked(counts);
  }
  now.cores = std::max(1, cores);
  now.worked = ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
  return now;
}

std::optional<double> taken_by_others(const CoreSeconds& before, const CoreSeconds& after) {
  const double passed = after.passed - before.passed;
  if (passed < kShortest) return std::nullopt;
  const double others = (after.worked - before.worked) - (after.own - before.own);
  const double cores = others / passed;
  return cores > std::max(kLeastCores, kLeastShare * after.cores) ? cores : 0;
}

}  // namespace ferry
