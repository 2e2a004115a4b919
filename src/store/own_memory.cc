#include "store/own_memory.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"

namespace ferry {

Bytes own_memory(pid_t process) {
  const std::string file = "/proc/" + std::to_string(process) + "/status";
  std::ifstream status(file);
  if (!status) {
    if (std::filesystem::exists("/proc/self/status")) return {};  // it has ended
    throw ResourceError("cannot read " + file + ": without /proc memory cannot be measured");
  }
  Bytes held;
  std::string line;
  while (std::getline(status, line)) {  // "RssAnon:     1234 kB"
    if (!line.starts_with("RssAnon:") && !line.starts_with("RssShmem:")) continue;
    held += Bytes{std::stoll(line.substr(line.find(':') + 1)) * 1024};
  }
  return held;
}

Bytes own_memory_with_children(pid_t process) {
  Bytes held = own_memory(process);
  const std::string number = std::to_string(process);
  std::ifstream children("/proc/" + number + "/task/" + number + "/children");
  for (pid_t child = 0; children >> child;) held += own_memory(child);
  return held;
}

PeakWatch::PeakWatch(std::function<Bytes()> now)
    : now_(std::move(now)), thread_([this](const std::stop_token& stop) { watch(stop); }) {}

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
    stopped_.wait_for(lock, stop, kInterval, [] { return false; });
  }
}

}  // namespace ferry
