// Independent works on the cores that are idle.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "base/progress.h"

namespace ferry {

/// Runs every work once, on the calling thread and on further ones while the process has cores that
/// no other call of this function uses; so it may be called by works, too. Returns when all are
/// done. None may read what another one writes. Throws what the first of them in order threw.
/// `begins`, if any, hears which work begins and how many are done, one call at a time; it must not
/// throw.
void side_by_side(std::span<const std::function<void()>> works,
                  const std::function<void(std::size_t work, std::size_t done)>& begins = {});

/// Whether that would use more than the calling thread.
bool has_idle_cores();

/// While it lives no core is idle that was when it was made. For tests.
class BusyCores {
 public:
  BusyCores();
  ~BusyCores();
  BusyCores(const BusyCores&) = delete;
  BusyCores& operator=(const BusyCores&) = delete;

 private:
  int taken_ = 0;
};

/// A work and how reports call it.
struct NamedWork {
  std::string name;
  std::function<void()> run;
};

/// Likewise, as the phase `what`, which counts works in `unit`s; the listener hears which begins.
void side_by_side(std::span<const NamedWork> works, PhaseListener& listener,
                  const std::string& what, const std::string& unit);

}  // namespace ferry
