#include "base/side_by_side.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace ferry {
namespace {

/// The cores of this process that nobody computes on, as far as this file knows.
class IdleCores {
 public:
  bool take() {
    int idle = idle_;
    while (idle > 0 && !idle_.compare_exchange_weak(idle, idle - 1)) {
    }
    return idle > 0;
  }
  void give_back() { ++idle_; }
  bool any() const { return idle_ > 0; }

 private:
  // Those that affinity leaves.
  std::atomic<int> idle_{std::max(static_cast<int>(std::thread::hardware_concurrency()), 1) - 1};
};

IdleCores& idle_cores() {
  static IdleCores cores;
  return cores;
}

}  // namespace

bool has_idle_cores() { return idle_cores().any(); }

BusyCores::BusyCores() {
  while (idle_cores().take()) ++taken_;
}

BusyCores::~BusyCores() {
  for (; taken_ > 0; --taken_) idle_cores().give_back();
}

void side_by_side(std::span<const std::function<void()>> works,
                  const std::function<void(std::size_t work, std::size_t done)>& begins) {
  std::vector<std::exception_ptr> failures(works.size());
  std::mutex counting;
  std::size_t begun = 0, done = 0;
  const auto next = [&] {
    const std::lock_guard lock(counting);
    if (begun < works.size() && begins) begins(begun, done);
    return begun++;
  };
  const auto run = [&] {
    for (std::size_t i = next(); i < works.size(); i = next()) {
      try {
        works[i]();
      } catch (...) {
        failures[i] = std::current_exception();
      }
      const std::lock_guard lock(counting);
      ++done;
    }
  };
  {
    std::vector<std::jthread> helpers;
    while (helpers.size() + 1 < works.size() && idle_cores().take()) {
      try {
        helpers.emplace_back([&] {
          run();
          idle_cores().give_back();
        });
      } catch (const std::system_error&) {  // no more threads: this one does it all
        idle_cores().give_back();
        break;
      }
    }
    run();
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

void side_by_side(std::span<const NamedWork> works, PhaseListener& listener,
                  const std::string& what, const std::string& unit) {
  Progress progress{what, 0, std::ssize(works), unit};
  std::vector<std::function<void()>> runs;
  for (const NamedWork& work : works) runs.push_back(work.run);
  side_by_side(runs, [&](std::size_t work, std::size_t done) {
    progress.done = static_cast<std::int64_t>(done);
    progress.part = works[work].name;
    listener.progress(progress);
  });
  progress.done = progress.total;
  progress.part.clear();
  listener.progress(progress);
}

}  // namespace ferry
