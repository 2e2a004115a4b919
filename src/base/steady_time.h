// Times of the steady clock in this project's unit.
#pragma once

#include <chrono>

#include "base/units.h"

namespace ferry {

using SteadyTime = std::chrono::steady_clock::time_point;

inline Micros between(SteadyTime begin, SteadyTime end) {
  return {std::chrono::duration<double, std::micro>(end - begin).count()};
}

/// SteadyTime{} is where the clock counts from.
inline Micros since(SteadyTime begin) { return between(begin, std::chrono::steady_clock::now()); }

}  // namespace ferry
