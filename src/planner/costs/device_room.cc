#include "planner/costs/device_room.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <vector>

#include "planner/costs/queues.h"

namespace ferry {
namespace {

// By workspace, ascending: W, S and sums of the blocks that take so much.
std::map<Bytes, double> held_by_workspace(const Chain& chain) {
  std::map<Bytes, double> held;
  for (const ChainBlock& block : chain.blocks) {
    const Bytes bytes = block.weights + block.states + landing_sum(block);
    held[least_backward_workspace(block)] += block.trainable ? as_double(bytes) : 0;
  }
  return held;
}

using Memories = std::vector<double>;  // of devices, the largest first

double sum_of_largest(const Memories& sizes, std::size_t count) {
  return std::accumulate(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(count), 0.0);
}

// What one device of that limit can hold.
double room_of(const std::map<Bytes, double>& held_by, double limit) {
  double most = 0;
  double held = 0;
  for (const auto& [workspace, bytes] : held_by) {
    held += bytes;
    most = std::max(most, std::min(held, limit - as_double(workspace)));
  }
  return most;
}

// Where any number of devices, but not all, run none but blocks that hold `held` in all, and each
// of the others one with that workspace at least.
double room_with(double held, double workspace, const Memories& rooms, const Memories& limits) {
  double most = 0;
  for (std::size_t light = 0; light < rooms.size(); ++light) {
    double others = 0;
    for (std::size_t d = 0; d < limits.size() - light; ++d) {
      others += std::max(0.0, limits[d] - workspace);
    }
    most = std::max(most, std::min(held, sum_of_largest(rooms, light)) + others);
  }
  return most;
}

}  // namespace

double room_on_devices(const PlanQuestion& question, const Chain& chain) {
  const std::map<Bytes, double> held_by = held_by_workspace(chain);
  Memories rooms, limits;
  for (int d = 0; d < static_cast<int>(question.machine.devices.size()); ++d) {
    limits.push_back(as_double(device_limit(question, d)));
    rooms.push_back(room_of(held_by, limits.back()));
  }
  std::ranges::sort(rooms, std::greater());
  std::ranges::sort(limits, std::greater());
  double room = sum_of_largest(rooms, rooms.size());
  double held = 0;  // by blocks with less workspace
  for (const auto& [workspace, bytes] : held_by) {
    room = std::min(room, room_with(held, as_double(workspace), rooms, limits));
    held += bytes;
  }
  return room;
}

}  // namespace ferry
