#include "base/kernel_team.h"

#include <dlfcn.h>
#include <sched.h>

#include <tuple>

namespace ferry {

// By name, of whichever OpenMP torch brings along: linking would bring the compiler's, too.
void release_kernel_team() {
  using Pause = int (*)(int kind);
  constexpr int kSoft = 1;  // omp_pause_soft: what the program has set stays
  static const auto pause = reinterpret_cast<Pause>(dlsym(RTLD_DEFAULT, "omp_pause_resource_all"));
  if (pause != nullptr) pause(kSoft);
}

// Where it is refused, nothing but speed is lost.
void wake_behind_others() {
  const sched_param none{};
  std::ignore = sched_setscheduler(0, SCHED_BATCH, &none);
}

}  // namespace ferry
