#include "spec/host_limits.h"

#include <sched.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "spec/kernel_file.h"
#include "spec/quantity.h"

namespace ferry {
namespace {

namespace fs = std::filesystem;

std::optional<std::int64_t> read_whole(const fs::path& path) {
  return parse_whole(first_line(path));
}

struct Membership {
  bool unified = false;            // cgroup v2
  std::vector<std::string> names;  // of v1: the hierarchy's folder is one of these
  fs::path path = {};              // below the hierarchy's folder
};

// Lines of /proc/self/cgroup: "4:cpu,cpuacct:/docker/1f3" (v1), "0::/user.slice" (v2).
std::vector<Membership> memberships(const fs::path& root) {
  std::vector<Membership> found;
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    Membership membership{.unified = controllers.empty(), .names = {controllers}};
    std::istringstream names(controllers);
    for (std::string name; std::getline(names, name, ',');) membership.names.push_back(name);
    // A path that leaves the mount ("/../..") is not visible from here: its top still is.
    const fs::path path = fs::path(line.substr(second + 1)).relative_path().lexically_normal();
    if (path != "." && path.string().rfind("..", 0) != 0) membership.path = path;
    found.push_back(membership);
  }
  return found;
}

// The folders that hold a controller's limits, from the process's own up to the top.
std::vector<fs::path> limit_folders(const fs::path& root, const std::string& controller,
                                    bool unified) {
  std::vector<fs::path> folders;
  const fs::path mount = root / "sys/fs/cgroup";
  for (const Membership& membership : memberships(root)) {
    const auto& names = membership.names;
    if (membership.unified != unified) continue;
    if (!unified && std::find(names.begin(), names.end(), controller) == names.end()) continue;
    std::vector<fs::path> tops;
    if (unified) {
      tops = {mount, mount / "unified"};
    } else {
      for (const std::string& name : names) tops.push_back(mount / name);
    }
    for (const fs::path& top : tops) {
      for (fs::path below = membership.path; !below.empty(); below = below.parent_path()) {
        folders.push_back(top / below);
      }
      folders.push_back(top);
    }
  }
  return folders;
}

/// A limit's file as the process sees it, wherever a test put the root.
std::string name_of(const fs::path& file, const fs::path& root) {
  return "/" + file.lexically_relative(root).string();
}

struct MemoryFiles {
  const char* limit;
  const char* usage;
  const char* inactive_key;
};

// What is left below a limit; pages of files that nobody uses now count as free.
void take_memory_limit(const fs::path& folder, const MemoryFiles& files, const fs::path& root,
                       HostLimits& limits) {
  const auto limit = read_whole(folder / files.limit);
  const auto usage = read_whole(folder / files.usage);
  if (!limit || !usage) return;  // "max", or no such controller here
  const std::int64_t inactive = read_entry(folder / "memory.stat", files.inactive_key).value_or(0);
  const std::int64_t used = std::max<std::int64_t>(*usage - inactive, 0);
  const Bytes left{std::max<std::int64_t>(*limit - used, 0)};
  if (left >= limits.memory) return;
  limits.memory = left;
  limits.memory_limit = name_of(folder / files.limit, root);
}

struct Quota {
  std::optional<std::int64_t> time;
  std::optional<std::int64_t> period;
};

void take_quota(const Quota& quota, const std::string& file, HostLimits& limits) {
  if (!quota.time || !quota.period || *quota.time <= 0 || *quota.period <= 0) return;  // none
  const std::int64_t cores = std::max<std::int64_t>(*quota.time / *quota.period, 1);
  if (cores >= limits.cores) return;
  limits.cores = static_cast<int>(cores);
  limits.cores_limit = file;
}

// Each cache is listed by every core that shares it; its size is written as "32768K".
Bytes last_level_caches(const fs::path& cpus) {
  std::map<std::string, std::int64_t> by_sharers;
  std::error_code error;
  for (const auto& cpu : fs::directory_iterator(cpus, error)) {
    const fs::path cache = cpu.path() / "cache/index3";
    std::string size = first_line(cache / "size");
    if (!size.ends_with('K')) continue;
    size.pop_back();
    by_sharers[first_line(cache / "shared_cpu_list")] = parse_whole(size).value_or(0) * 1024;
  }
  Bytes sum;
  for (const auto& [sharers, bytes] : by_sharers) sum += {bytes};
  return sum;
}

}  // namespace

HostLimits host_limits(const std::filesystem::path& root, int cores) {
  FERRY_CHECK(cores >= 1, "a process runs on a core");
  const fs::path meminfo = root / "proc/meminfo";
  const auto available = read_entry(meminfo, "MemAvailable:");
  if (!available) {
    throw ResourceError("'MemAvailable' is not in " + meminfo.string() +
                        "; write the host's memory into a machine file");
  }
  HostLimits limits{.cores = cores, .memory = {*available * 1024}};
  for (const fs::path& folder : limit_folders(root, "memory", true)) {
    take_memory_limit(folder, {"memory.max", "memory.current", "inactive_file"}, root, limits);
  }
  for (const fs::path& folder : limit_folders(root, "memory", false)) {
    take_memory_limit(folder,
                      {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"},
                      root, limits);
  }
  for (const fs::path& folder : limit_folders(root, "cpu", true)) {
    std::istringstream words(first_line(folder / "cpu.max"));
    std::string time, period;
    words >> time >> period;
    take_quota({parse_whole(time), parse_whole(period)}, name_of(folder / "cpu.max", root), limits);
  }
  for (const fs::path& folder : limit_folders(root, "cpu", false)) {
    take_quota({read_whole(folder / "cpu.cfs_quota_us"), read_whole(folder / "cpu.cfs_period_us")},
               name_of(folder / "cpu.cfs_quota_us", root), limits);
  }
  return limits;
}

int cores_by_affinity() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0) return std::max(CPU_COUNT(&cores), 1);
  // More than 1024 cores do not fit the set.
  return std::max(static_cast<int>(std::thread::hardware_concurrency()), 1);
}

HostTotals host_totals(const std::filesystem::path& root) {
  const fs::path cpus = root / "sys/devices/system/cpu";
  const auto memory = read_entry(root / "proc/meminfo", "MemTotal:");
  HostTotals totals{.cores = std::max(static_cast<int>(number_list(cpus / "online").size()), 1),
                    .memory = {memory.value_or(0) * 1024},
                    .cache = last_level_caches(cpus)};
  std::ifstream(root / "proc/loadavg") >> totals.load;
  return totals;
}

std::string processor_name(const std::filesystem::path& root) {
  const std::string name = text_entry(root / "proc/cpuinfo", "model name");
  return name.empty() ? "unknown processor" : name;
}

}  // namespace ferry
