#include "train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace ferry {

double learning_rate(const OptimJob& optim, int step, int steps) {
  FERRY_CHECK(0 <= step && step < steps, "a step of the run");
  const int warmup = warmup_steps(optim, steps);
  if (step < warmup) return optim.lr * step / warmup;
  const double progress = static_cast<double>(step - warmup) / std::max(1, steps - warmup);
  switch (optim.schedule) {
    case Schedule::constant:
      return optim.lr;
    case Schedule::linear:
      return optim.lr * (1 - progress);
    case Schedule::cosine:
      return optim.lr * 0.5 * (1 + std::cos(std::numbers::pi * progress));
  }
  FERRY_UNREACHABLE("a schedule");
}

}  // namespace ferry
