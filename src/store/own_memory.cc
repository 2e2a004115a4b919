#include "store/own_memory.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace ferry {

namespace {

/// The sum of the lines "RssAnon:     1234 kB" of a file in /proc that begin with one of `names`;
/// nothing where there is no such line, or no such process.
std::optional<Bytes> sum_of(const std::string& file, std::span<const std::string_view> names) {
  std::ifstream lines(file);
  std::optional<Bytes> sum;
  std::string line;
  while (std::getline(lines, line)) {
    const auto begins = [&](std::string_view name) { return line.starts_with(name); };
    if (std::ranges::none_of(names, begins)) continue;
    const Bytes held{std::stoll(line.substr(line.find(':') + 1)) * 1024};
    sum = sum.value_or(0_B) + held;
  }
  return sum;
}

/// As own_memory(), but of a page that n processes share an n-th.
Bytes own_part_of_memory(pid_t process) {
  constexpr std::array<std::string_view, 2> kNames = {"Pss_Anon:", "Pss_Shmem:"};
  const auto part = sum_of("/proc/" + std::to_string(process) + "/smaps_rollup", kNames);
  return part ? *part : own_memory(process);
}

}  // namespace

Bytes own_memory(pid_t process) {
  constexpr std::array<std::string_view, 2> kNames = {"RssAnon:", "RssShmem:"};
  const std::string file = "/proc/" + std::to_string(process) + "/status";
  if (const auto held = sum_of(file, kNames)) return *held;
  if (std::filesystem::exists("/proc/self/status")) return {};  // it has ended
  throw ResourceError("cannot read " + file + ": without /proc memory cannot be measured");
}

Bytes own_memory_with_children(pid_t process) {
  Bytes held = own_part_of_memory(process);
  const std::string number = std::to_string(process);
  std::ifstream children("/proc/" + number + "/task/" + number + "/children");
  for (pid_t child = 0; children >> child;) held += own_part_of_memory(child);
  return held;
}

PeakWatch::PeakWatch(std::function<Bytes()> now, std::chrono::milliseconds interval)
    : now_(std::move(now)),
      interval_(interval),
      thread_([this](const std::stop_token& stop) { watch(stop); }) {}

Bytes PeakWatch::peak() {
  const std::lock_guard lock(mutex_);
  look();
  if (failure_) std::rethrow_exception(failure_);
  return peak_;
}

void PeakWatch::look() {
  if (failure_) return;
  try {
    peak_ = std::max(peak_, now_());
  } catch (...) {
    failure_ = std::current_exception();
  }
}

void PeakWatch::watch(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    look();
    stopped_.wait_for(lock, stop, interval_, [] { return false; });
  }
}

}  // namespace ferry
