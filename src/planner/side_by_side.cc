#include "planner/side_by_side.h"

#include <atomic>
#include <cstddef>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

#include "spec/host_limits.h"

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

 private:
  std::atomic<int> idle_{cores_by_affinity() - 1};
};

IdleCores& idle_cores() {
  static IdleCores cores;
  return cores;
}

}  // namespace

void side_by_side(std::span<const std::function<void()>> works) {
  std::vector<std::exception_ptr> failures(works.size());
  std::atomic<std::size_t> next = 0;
  const auto run = [&] {
    for (std::size_t i = next++; i < works.size(); i = next++) {
      try {
        works[i]();
      } catch (...) {
        failures[i] = std::current_exception();
      }
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

}  // namespace ferry
