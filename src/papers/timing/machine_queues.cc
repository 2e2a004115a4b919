#include "papers/timing/machine_queues.h"

#include <algorithm>

#include "base/error.h"

namespace ferry {
namespace {

double rate_of(const PlanQuestion& question, const MachineDevice& device, bool up) {
  const Rate profile = up ? question.profile.up : question.profile.down;
  const Rate rate = profile.limited() ? profile : up ? device.up : device.down;
  if (rate.limited()) return rate.bytes_per_second;
  throw UserError("machine '" + question.machine.name + "': device '" + device.name +
                  "' has no rate '" + (up ? "up" : "down") + "', which the pure program needs");
}

}  // namespace

MachineQueues::MachineQueues(TimingPlan& plan, const PlanQuestion& question) : plan_(plan) {
  struct RootPools {
    std::optional<PoolId> up;
    std::optional<PoolId> down;
  };
  std::vector<RootPools> roots;
  for (const Root& root : question.machine.roots) {
    RootPools pools;
    if (root.up.limited()) pools.up = plan.pool(root.name + ".up", root.up.bytes_per_second);
    if (root.down.limited()) {
      pools.down = plan.pool(root.name + ".down", root.down.bytes_per_second);
    }
    roots.push_back(pools);
    root_names_.push_back(root.name);
  }
  for (const MachineDevice& machine_device : question.machine.devices) {
    Device device;
    device.name = machine_device.name;
    device.place = plan.place(device.name, PlaceKind::device);
    device.compute = plan.compute(device.name + ".compute", device.place);
    device.root = machine_device.root;
    device.latency = machine_device.latency + question.profile.copy_overhead;
    const auto direction = [&](bool up) {
      Direction result{rate_of(question, machine_device, up), {}};
      const std::string name = device.name + (up ? ".up" : ".down");
      result.draws.push_back({plan.pool(name, result.rate), result.rate});
      if (!machine_device.root) return result;
      const RootPools& pools = roots[static_cast<std::size_t>(*machine_device.root)];
      const std::optional<PoolId> pool = up ? pools.up : pools.down;
      if (pool) result.draws.push_back({*pool, result.rate});
      return result;
    };
    device.up = direction(true);
    device.down = direction(false);
    devices_.push_back(std::move(device));
  }
}

ResourceId MachineQueues::up(int device, const std::string& purpose) {
  const Device& at = devices_[device];
  return lane(at, at.up, purpose);
}

ResourceId MachineQueues::down(int device, const std::string& purpose) {
  const Device& at = devices_[device];
  return lane(at, at.down, purpose);
}

ResourceId MachineQueues::root_up(int device, const std::string& purpose) {
  return shared_lane(device, true, purpose);
}

ResourceId MachineQueues::root_down(int device, const std::string& purpose) {
  return shared_lane(device, false, purpose);
}

// Runs at the slowest of its devices' links, and draws from the root alone.
ResourceId MachineQueues::shared_lane(int device, bool up, const std::string& purpose) {
  const Device& at = devices_[device];
  const std::string name = (at.root ? root_names_[*at.root] : at.name) + "." + purpose;
  if (const auto found = shared_.find(name); found != shared_.end()) return found->second;
  Direction direction = up ? at.up : at.down;
  Micros latency = at.latency;
  if (at.root) {
    for (const Device& other : devices_) {
      if (other.root != at.root) continue;
      direction.rate = std::min(direction.rate, (up ? other.up : other.down).rate);
      latency = std::max(latency, other.latency);
    }
    direction.draws.erase(direction.draws.begin());
    for (Draw& draw : direction.draws) draw.rate = direction.rate;
  }
  const ResourceId id =
      plan_.link(name, at.root ? plan_.host() : at.place, direction.rate, direction.draws, latency);
  shared_[name] = id;
  return id;
}

ResourceId MachineQueues::lane(const Device& device, const Direction& direction,
                               const std::string& purpose) {
  std::string name = device.name;
  name += '.';
  name += purpose;
  return plan_.link(name, device.place, direction.rate, direction.draws, device.latency);
}

}  // namespace ferry
