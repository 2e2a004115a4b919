#include "planner/queues.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>

namespace ferry {
namespace {

// A memcpy by one core, for copies of simulated devices that nothing throttles; measured figures
// replace it through the profile.
constexpr double kMemcpyRate = 6e9;

PoolId add_pool(Plan& plan, const std::string& name, double capacity) {
  plan.pools.push_back({name, capacity});
  return static_cast<PoolId>(plan.pools.size()) - 1;
}

ResourceId add_resource(Plan& plan, Resource resource) {
  plan.resources.push_back(std::move(resource));
  return static_cast<ResourceId>(plan.resources.size()) - 1;
}

const MachineDevice& device_of(const PlanQuestion& question, int device) {
  return question.machine.devices[static_cast<std::size_t>(device)];
}

double copy_rate(Rate profile, Rate machine) {
  if (profile.limited()) return profile.bytes_per_second;
  if (machine.limited()) return machine.bytes_per_second;
  return kMemcpyRate;
}

// The pools of one direction of one device's link.
struct Link {
  double rate = 0;
  std::vector<Draw> draws;
};

struct Direction {
  std::string suffix;  // ".up"
  Rate device;
  double rate = 0;
  std::optional<PoolId> root;
};

Link add_link(Plan& plan, const MachineDevice& device, const Direction& direction, PoolId cores) {
  Link link{direction.rate, {}};
  if (device.kind == DeviceKind::sim && !direction.device.limited()) {
    link.draws.push_back({cores, 1.0});
  } else {
    link.draws.push_back({add_pool(plan, device.name + direction.suffix, link.rate), link.rate});
  }
  if (direction.root) link.draws.push_back({*direction.root, link.rate});
  return link;
}

struct RootPools {
  std::optional<PoolId> up;
  std::optional<PoolId> down;
};

class QueueMaker {
 public:
  QueueMaker(Plan& plan, const PlanQuestion& question) : plan_(plan), question_(question) {}

  Queues make(int devices) {
    const Host& host = question_.machine.host;
    const double cores = std::max(1, host.cores);
    cores_ = add_pool(plan_, "cores", cores);
    for (const Root& root : question_.machine.roots) {
      RootPools pools;
      if (root.up.limited()) {
        pools.up = add_pool(plan_, root.name + ".up", root.up.bytes_per_second);
      }
      if (root.down.limited()) {
        pools.down = add_pool(plan_, root.name + ".down", root.down.bytes_per_second);
      }
      roots_.push_back(pools);
    }
    Queues queues;
    for (int d = 0; d < devices; ++d) queues.devices.push_back(device(d));
    plan_.places.push_back({"host", PlaceKind::host, host_limit(question_), {}});
    queues.host = static_cast<PlaceId>(plan_.places.size()) - 1;
    queues.load = add_resource(plan_, {"host.load", ResourceKind::host, queues.host, 0, {}, {}});
    queues.update = add_resource(
        plan_, {"host.update", ResourceKind::host, queues.host, 0, {}, {{cores_, cores}}});
    return queues;
  }

 private:
  DeviceQueues device(int d) {
    const MachineDevice& device = device_of(question_, d);
    plan_.places.push_back({device.name, PlaceKind::device, device_limit(question_, d), {}});
    DeviceQueues queues;
    queues.place = static_cast<PlaceId>(plan_.places.size()) - 1;
    queues.compute = add_resource(
        plan_,
        {device.name + ".compute", ResourceKind::compute, queues.place, 0, {}, compute_draws(d)});
    const RootPools roots =
        device.root ? roots_[static_cast<std::size_t>(*device.root)] : RootPools{};
    const Link up =
        add_link(plan_, device, {".up", device.up, upload_rate(question_, d), roots.up}, cores_);
    const Link down = add_link(
        plan_, device, {".down", device.down, download_rate(question_, d), roots.down}, cores_);
    const auto copies = [&](const std::string& name, const Link& link) {
      const Micros latency = device.latency + question_.profile.copy_overhead;
      return add_resource(plan_, {device.name + name, ResourceKind::copy, queues.place, link.rate,
                                  latency, link.draws});
    };
    queues.weights_up = copies(".weights_up", up);
    queues.acts_up = copies(".acts_up", up);
    queues.down = copies(".down", down);
    return queues;
  }

  // A simulated device computes on the host's cores. Logical devices of one GPU share that GPU.
  std::vector<Draw> compute_draws(int d) {
    const MachineDevice& device = device_of(question_, d);
    if (device.kind == DeviceKind::sim) return {{cores_, compute_cores(question_, d)}};
    const auto& devices = question_.machine.devices;
    const auto same = [&](const MachineDevice& other) {
      return other.kind == device.kind && other.index == device.index;
    };
    if (std::count_if(devices.begin(), devices.end(), same) < 2) return {};
    const std::string name = "cuda" + std::to_string(device.index);
    const auto found = std::find_if(plan_.pools.begin(), plan_.pools.end(),
                                    [&](const Pool& pool) { return pool.name == name; });
    if (found == plan_.pools.end()) return {{add_pool(plan_, name, 1.0), 1.0}};
    return {{static_cast<PoolId>(found - plan_.pools.begin()), 1.0}};
  }

  Plan& plan_;
  const PlanQuestion& question_;
  PoolId cores_ = -1;
  std::vector<RootPools> roots_;
};

}  // namespace

Queues add_queues(Plan& plan, const PlanQuestion& question, int devices) {
  return QueueMaker(plan, question).make(devices);
}

Bytes device_limit(const PlanQuestion& question, int device) {
  const Bytes limit = std::min(question.device_budget, device_of(question, device).memory);
  // Allocators hand out whole multiples of 512 bytes, so the rest of a budget is out of reach.
  return limit - Bytes{limit.count % 512};
}

Bytes host_limit(const PlanQuestion& question) {
  return std::min(question.host_budget, question.machine.host.memory);
}

double upload_rate(const PlanQuestion& question, int device) {
  return copy_rate(question.profile.up, device_of(question, device).up);
}

double download_rate(const PlanQuestion& question, int device) {
  return copy_rate(question.profile.down, device_of(question, device).down);
}

double compute_cores(const PlanQuestion& question, int device) {
  const MachineDevice& machine_device = device_of(question, device);
  if (machine_device.kind != DeviceKind::sim) return 0;
  return std::clamp(machine_device.threads, 1, std::max(1, question.machine.host.cores));
}

}  // namespace ferry
