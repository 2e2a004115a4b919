#include "planner/costs/queues.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>

#include "base/device_block.h"

namespace ferry {
namespace {

// A memcpy by one core, for copies of simulated devices that nothing throttles; measured figures
// replace it through the profile.
constexpr double kMemcpyRate = 6e9;

PoolId add_pool(Plan& plan, const std::string& name, double capacity, bool in_turn = false) {
  return plan.pools.add({name, capacity, in_turn});
}

/// One that several resources share, added by the first.
PoolId shared_pool(Plan& plan, const std::string& name, double capacity, bool in_turn = false) {
  const auto found = std::ranges::find(plan.pools, name, &Pool::name);
  return found == plan.pools.end() ? add_pool(plan, name, capacity, in_turn)
                                   : plan.pools.id_of(found);
}

ResourceId add_resource(Plan& plan, Resource resource) {
  return plan.resources.add(std::move(resource));
}

const MachineDevice& device_of(const PlanQuestion& question, int device) {
  return question.machine.devices[device];
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

struct RootPools {
  std::optional<PoolId> up;
  std::optional<PoolId> down;
};

class QueueMaker {
 public:
  QueueMaker(Plan& plan, const PlanQuestion& question) : plan_(plan), question_(question) {}

  Queues make(int devices, const DriveArray* drives) {
    const Host& host = question_.machine.host;
    const double cores = std::max(1, host.cores);
    cores_ = add_pool(plan_, "cores", cores);
    if (const auto rate = dram_rate(question_)) dram_ = add_pool(plan_, "dram", *rate);
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
    queues.host = plan_.places.add({"host", PlaceKind::host, host_limit(question_), {}});
    queues.load = add_resource(plan_, {"host.load", ResourceKind::host, queues.host, 0, {}, {}});
    std::vector<Draw> update_draws = {{cores_, cores}};
    if (dram_) {
      const double traffic = update_traffic(question_.gradients);
      update_draws.push_back({*dram_, update_rate(question_) * traffic});
    }
    queues.update = add_resource(
        plan_, {"host.update", ResourceKind::host, queues.host, 0, {}, std::move(update_draws)});
    if (drives != nullptr) queues.drives = drive_queues(*drives);
    return queues;
  }

 private:
  DeviceQueues device(int d) {
    const MachineDevice& device = device_of(question_, d);
    DeviceQueues queues;
    queues.place =
        plan_.places.add({device.name, PlaceKind::device, device_limit(question_, d), {}});
    queues.compute = add_resource(
        plan_,
        {device.name + ".compute", ResourceKind::compute, queues.place, 0, {}, compute_draws(d)});
    const RootPools roots = device.root ? roots_[*device.root] : RootPools{};
    const Link up = link(device, {".up", device.up, upload_rate(question_, d), roots.up});
    const Link down = link(device, {".down", device.down, download_rate(question_, d), roots.down});
    const auto copies = [&](const std::string& name, Link link) {
      if (dram_) link.draws.push_back({*dram_, link.rate});
      const Micros latency = device.latency + question_.profile.copy_overhead;
      return add_resource(plan_, {device.name + name, ResourceKind::copy, queues.place, link.rate,
                                  latency, link.draws});
    };
    queues.weights_up = copies(".weights_up", up);
    queues.acts_up = copies(".acts_up", up);
    queues.acts_down = copies(".acts_down", down);
    queues.sums_down = copies(".sums_down", down);
    return queues;
  }

  Link link(const MachineDevice& device, const Direction& direction) {
    Link link{direction.rate, {}};
    if (device.kind == DeviceKind::sim && !direction.device.limited()) {
      link.draws.push_back({cores_, 1.0});
    } else {
      const PoolId pool =
          shared_pool(plan_, owner(device) + direction.suffix, link.rate, device.copies_in_turn);
      link.draws.push_back({pool, link.rate});
    }
    if (direction.root) link.draws.push_back({*direction.root, link.rate});
    return link;
  }

  // Whose link it is, and whose computation.
  std::string owner(const MachineDevice& device) const {
    return is_shared(question_.machine, device) ? hardware_name(device) : device.name;
  }

  DriveQueues drive_queues(const DriveArray& array) {
    const auto& drives = question_.machine.drives;
    const std::string name = drives.size() == 1 ? drives.front().name : "drives";
    DriveQueues queues;
    queues.place = plan_.places.add({name, PlaceKind::drive, array.capacity, {}});
    // A simplex array does one thing at a time: read time and write time add.
    const PoolId reads = add_pool(plan_, array.duplex ? name + ".reads" : name, 1.0);
    const PoolId writes = array.duplex ? add_pool(plan_, name + ".writes", 1.0) : reads;
    const double cores = taken_cores(array);
    const auto add = [&](const std::string& queue, PoolId pool, Rate rate, bool down) {
      std::vector<Draw> draws = {{pool, 1.0}};
      if (cores > 0) draws.push_back({cores_, cores / (array.duplex ? 2 : 1)});
      if (dram_) draws.push_back({*dram_, rate.bytes_per_second});
      add_root_draws(draws, array, rate, down);
      return add_resource(plan_,
                          {name + queue, ResourceKind::copy, queues.place, rate.bytes_per_second,
                           question_.profile.copy_overhead, std::move(draws)});
    };
    queues.weights_read = add(".weights_read", reads, array.read, true);
    queues.states_read = add(".states_read", reads, array.read, true);
    queues.write = add(".write", writes, array.write, false);
    queues.acts_write = add(".acts_write", writes, array.write, false);
    return queues;
  }

  // What drives take of the cores while they move at their rates. They take it of a simulated
  // device's kernels, too, which leave cores idle on the average: on all cores, each kernel waits
  // for the slowest of its threads.
  double taken_cores(const DriveArray& array) const {
    if (array.cores <= 0) return 0;
    const double cores = std::max(1, question_.machine.host.cores);
    double idle = 0;
    for (int d = 0; d < static_cast<int>(question_.machine.devices.size()); ++d) {
      const MachineDevice& device = device_of(question_, d);
      if (device.kind != DeviceKind::sim || device.threads < cores) continue;
      idle = std::max(idle, cores - compute_cores(question_, d));
    }
    return array.cores + idle;
  }

  // What drives read goes through their root complexes towards the host, as what devices send down:
  // below each root as much of it as its drives hold.
  void add_root_draws(std::vector<Draw>& draws, const DriveArray& array, Rate rate, bool down) {
    const auto& drives = question_.machine.drives;
    for (std::size_t r = 0; r < roots_.size(); ++r) {
      double share = 0;
      for (std::size_t d = 0; d < drives.size(); ++d) {
        if (drives[d].root == static_cast<int>(r)) share += array.shares[d];
      }
      const auto& pool = down ? roots_[r].down : roots_[r].up;
      if (share <= 0 || !pool) continue;
      draws.push_back({*pool, rate.bytes_per_second * share});
    }
  }

  // A simulated device computes on the host's cores. Logical devices of one GPU share that GPU.
  std::vector<Draw> compute_draws(int d) {
    const MachineDevice& device = device_of(question_, d);
    if (device.kind == DeviceKind::sim) return {{cores_, compute_cores(question_, d)}};
    if (!is_shared(question_.machine, device)) return {};
    return {{shared_pool(plan_, owner(device), 1.0), 1.0}};
  }

  Plan& plan_;
  const PlanQuestion& question_;
  PoolId cores_;
  std::optional<PoolId> dram_;
  std::vector<RootPools> roots_;
};

}  // namespace

Queues add_queues(Plan& plan, const PlanQuestion& question, int devices, const DriveArray* drives) {
  return QueueMaker(plan, question).make(devices, drives);
}

bool may_send(const PlanQuestion& question, int from, int to) {
  return from != to && device_of(question, from).p2p.limited() &&
         device_of(question, to).p2p.limited();
}

bool may_send(const PlanQuestion& question) {
  const auto have = [](const MachineDevice& device) { return device.p2p.limited(); };
  return std::ranges::count_if(question.machine.devices, have) > 1;
}

ResourceId add_queue_between(Plan& plan, const PlanQuestion& question, const Queues& queues,
                             int from, int to, Cargo cargo) {
  const MachineDevice &sender = device_of(question, from), &receiver = device_of(question, to);
  const double sends = sender.p2p.bytes_per_second, receives = receiver.p2p.bytes_per_second;
  const double rate = std::min(sends, receives);
  const PoolId out = shared_pool(plan, sender.name + ".peer_out", sends);
  const PoolId in = shared_pool(plan, receiver.name + ".peer_in", receives);
  const std::string kind = cargo == Cargo::activations ? ".acts_to_" : ".sums_to_";
  const Micros latency =
      std::max(sender.latency, receiver.latency) + question.profile.copy_overhead;
  return add_resource(plan, {sender.name + kind + receiver.name,
                             ResourceKind::copy,
                             queues.devices[from].place,
                             rate,
                             latency,
                             {{out, rate}, {in, rate}}});
}

Micros read_and_written(const DriveArray& drives, double bytes) {
  const Micros read = from_seconds(bytes / drives.read.bytes_per_second);
  const Micros write = from_seconds(bytes / drives.write.bytes_per_second);
  return drives.duplex ? std::max(read, write) : read + write;
}

std::optional<double> dram_rate(const PlanQuestion& question) {
  const Host& host = question.machine.host;
  if (!host.memory_bandwidth.limited()) return std::nullopt;
  return std::max(host.memory_bandwidth.bytes_per_second,
                  host.update_rate * update_traffic(Precision::fp32));
}

DriveArray drive_array(const PlanQuestion& question, const Chain& chain) {
  Bytes need;
  for (const ChainBlock& block : chain.blocks) {
    need += block.weights + block.states + block.gradients;
  }
  return drive_array(question.machine, need);
}

Bytes device_limit(const PlanQuestion& question, int device) {
  const Bytes limit = device_budget(question, device).bytes;
  return limit - Bytes{limit.count % kDeviceBlock.count};  // what is left is out of reach
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

JointRates joint_rates(const PlanQuestion& question) {
  JointRates all;
  std::vector<JointRates> below(question.machine.roots.size());
  for (int d = 0; d < static_cast<int>(question.machine.devices.size()); ++d) {
    const auto& root = device_of(question, d).root;
    JointRates& sum = root ? below[static_cast<std::size_t>(*root)] : all;
    sum.up += upload_rate(question, d);
    sum.down += download_rate(question, d);
  }
  const auto within = [](double rate, Rate limit) {
    return limit.limited() ? std::min(rate, limit.bytes_per_second) : rate;
  };
  for (std::size_t r = 0; r < below.size(); ++r) {
    all.up += within(below[r].up, question.machine.roots[r].up);
    all.down += within(below[r].down, question.machine.roots[r].down);
  }
  return all;
}

double compute_cores(const PlanQuestion& question, int device) {
  const MachineDevice& machine_device = device_of(question, device);
  if (machine_device.kind != DeviceKind::sim) return 0;
  const double cores = std::max(1, question.machine.host.cores);
  const double measured = question.profile.compute_cores;
  return std::min(measured > 0 ? measured : machine_device.threads, cores);
}

}  // namespace ferry
