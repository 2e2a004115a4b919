#include "store/pace.h"

#include <algorithm>

namespace ferry {

void Pace::arrive(IoKind kind, Clock::time_point now) {
  done_.at(way(kind)) = std::max(done_.at(way(kind)), now);
}

Pace::Clock::time_point Pace::begins(IoKind kind, std::size_t size) const {
  const double rate = kind == IoKind::read ? rates_.read : rates_.write;
  const std::chrono::duration<double> takes(static_cast<double>(size) / rate);
  return done_.at(way(kind)) + std::chrono::duration_cast<Clock::duration>(takes);
}

void Pace::begin(IoKind kind, std::size_t size) { done_.at(way(kind)) = begins(kind, size); }

}  // namespace ferry
