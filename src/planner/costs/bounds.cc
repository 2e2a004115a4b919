#include "planner/costs/bounds.h"

#include <algorithm>
#include <limits>
#include <map>

#include "planner/costs/queues.h"

namespace ferry {
namespace {

struct Work {
  Micros chain;    // one micro-batch through all blocks, forward and backward
  Micros updates;  // of all blocks
  Bytes weights;   // that go up at least once per step
  Bytes sums;      // that come down
};

Work work_of(const PlanQuestion& question, const Chain& chain, bool on_device) {
  Work work;
  for (const ChainBlock& block : chain.blocks) {
    if (has_forward(block)) work.chain += block.forward;
    if (question.mode != PlanMode::train) continue;
    work.chain += least_backward(block);
    if (!block.trainable) continue;
    work.updates += on_device ? block.device_update : block.host_update;
    work.weights += block.weights;
    work.sums += landing_sum(block);
  }
  return work;
}

// From a step's first forward to the last backward of the first block, which the next step's first
// forward waits for. A sum takes the micro-batches one after the other, in ascending order: so one
// micro-batch goes through all blocks but for a block's backward, and there all do.
Micros through_sums(const PlanQuestion& question, const Chain& chain, Micros one_micro_batch) {
  Micros longest;
  for (const ChainBlock& block : chain.blocks) {
    if (block.gradients > Bytes{}) longest = std::max(longest, least_backward(block));
  }
  return one_micro_batch + longest * (question.micro_batches - 1);
}

// The rate of all links of one direction together, root complexes included.
double joint_rate(const PlanQuestion& question, bool up) {
  double joint = 0;
  for (std::size_t d = 0; d < question.machine.devices.size(); ++d) {
    const int device = static_cast<int>(d);
    joint += up ? upload_rate(question, device) : download_rate(question, device);
  }
  return joint;
}

double roots_rate(const PlanQuestion& question, bool up) {
  double joint = 0;
  const Machine& machine = question.machine;
  for (std::size_t d = 0; d < machine.devices.size(); ++d) {
    const int device = static_cast<int>(d);
    const auto& root = machine.devices[d].root;
    const Rate rate = root ? (up ? machine.roots[*root].up : machine.roots[*root].down) : Rate{};
    if (!rate.limited()) {
      joint += up ? upload_rate(question, device) : download_rate(question, device);
    }
  }
  for (std::size_t r = 0; r < machine.roots.size(); ++r) {
    const bool used = std::any_of(
        machine.devices.begin(), machine.devices.end(),
        [&](const MachineDevice& device) { return device.root == static_cast<int>(r); });
    if (used) joint += (up ? machine.roots[r].up : machine.roots[r].down).bytes_per_second;
  }
  return joint;
}

// The least cores that a device's task takes.
double fewest_cores(const PlanQuestion& question) {
  double fewest = compute_cores(question, 0);
  for (int d = 1; d < static_cast<int>(question.machine.devices.size()); ++d) {
    fewest = std::min(fewest, compute_cores(question, d));
  }
  return fewest;
}

// The least time in which all links of one direction together move `bytes`.
Micros link_time(const PlanQuestion& question, double bytes, bool up) {
  const double rate = std::min(joint_rate(question, up), std::max(1.0, roots_rate(question, up)));
  return from_seconds(bytes / rate);
}

// With clipping: between the norm of the step before, with all that renews weights, and a step's
// norm, all backwards of blocks of which the norm knows. The block renewed last has its forwards
// behind that, and each micro-batch's backward, from the head on, behind those.
Micros behind_updates(const PlanQuestion& question, const Chain& chain) {
  if (!question.clips) return {};
  Micros backward;
  bool counts = false;  // from the first trainable block on
  for (const ChainBlock& block : chain.blocks) {
    counts = counts || block.trainable;
    if (counts) backward += least_backward(block);
  }
  const auto devices = static_cast<double>(question.machine.devices.size());
  return backward * (question.micro_batches / devices);
}

// No more than the least of the larger of both over [0, most], where the one falls and the other
// rises.
template <typename Falling, typename Rising>
Micros least_of_both(const Falling& falling, const Rising& rising, double most) {
  constexpr int kHalvings = 60;
  double low = 0;
  for (int i = 0; i < kHalvings && falling(most) < rising(most); ++i) {
    const double middle = (low + most) / 2;
    (falling(middle) < rising(middle) ? most : low) = middle;
  }
  return falling(most);
}

// What a device can hold of W, S and sums. It holds those of blocks that run there, beside the
// workspace of the one that takes most.
double room_on(const PlanQuestion& question, const Chain& chain, int device) {
  std::map<Bytes, double> by_workspace;
  for (const ChainBlock& block : chain.blocks) {
    if (!block.trainable) continue;
    by_workspace[block.backward_workspace] +=
        static_cast<double>((block.weights + block.states + landing_sum(block)).count);
  }
  const auto limit = static_cast<double>(device_limit(question, device).count);
  double most = 0;
  double held = 0;
  for (const auto& [workspace, bytes] : by_workspace) {
    held += bytes;
    most = std::max(most, std::min(held, limit - static_cast<double>(workspace.count)));
  }
  return most;
}

constexpr double kMost = std::numeric_limits<double>::infinity();

// What rests somewhere, and what places can hold, in bytes.
struct Capacity {
  double states = 0;   // W + S of all blocks
  double waiting = 0;  // with clipping, all sums: when the norm is known they are somewhere
  double devices = 0;  // these can hold, of W, S and sums
  double host = 0;
  // Over the blocks, of W + S.
  double weights_share = kMost;  // the least
  double sums_share = kMost;
  double most_sums_share = 0;
  double update_micros = kMost;  // of the host, per byte, the least

  /// States that a device updates rest on that device; all others the host does, at least these.
  double on_host() const { return std::max(0.0, states - devices); }
};

Capacity capacity_of(const PlanQuestion& question, const Chain& chain) {
  Capacity capacity;
  for (const ChainBlock& block : chain.blocks) {
    const auto at_rest = static_cast<double>((block.weights + block.states).count);
    if (!block.trainable || at_rest <= 0) continue;
    const auto sum = static_cast<double>(landing_sum(block).count);
    capacity.states += at_rest;
    if (question.clips) capacity.waiting += sum;
    const double weights_share = static_cast<double>(block.weights.count) / at_rest;
    capacity.weights_share = std::min(capacity.weights_share, weights_share);
    capacity.sums_share = std::min(capacity.sums_share, sum / at_rest);
    capacity.most_sums_share = std::max(capacity.most_sums_share, sum / at_rest);
    capacity.update_micros = std::min(capacity.update_micros, block.host_update.count / at_rest);
  }
  for (int d = 0; d < static_cast<int>(question.machine.devices.size()); ++d) {
    capacity.devices += room_on(question, chain, d);
  }
  capacity.host = static_cast<double>(host_limit(question).count);
  return capacity;
}

// With clipping, by how much W + S the host updates: from a norm to the last renewal its weights go
// up, and from there to the next norm are all backwards, and all sums come down but for those that
// find room on devices. More on the host is more room, and more sums that come down.
Micros renewing_and_landing(const PlanQuestion& question, const Capacity& capacity,
                            Micros backwards) {
  const double sums_share = capacity.sums_share;
  const double beside = capacity.states + capacity.waiting - capacity.devices;
  const auto phases = [&](double renewed) {
    // Devices that update a block have its W + S, and its sum at the norm, or get it then.
    const double elsewhere = (1 + sums_share) * (capacity.states - renewed) - capacity.devices;
    const double up = renewed * capacity.weights_share + std::max(0.0, elsewhere);
    const double down = std::max(0.0, beside - renewed);
    return link_time(question, up, true) + std::max(backwards, link_time(question, down, false));
  };
  const Micros byte_down = link_time(question, 1, false);
  const double none_elsewhere = capacity.states - capacity.devices / (1 + sums_share);
  const double all_behind_backwards = beside - backwards.count / byte_down.count;
  double shortest = std::max(0.0, none_elsewhere);
  if (link_time(question, capacity.weights_share, true) < byte_down) {
    shortest = std::max(shortest, all_behind_backwards);
  }
  const double least = capacity.on_host();
  const auto falling = [&](double more) { return phases(std::min(least + more, shortest)); };
  const auto landing = [&](double more) {
    return link_time(question, (least + more) * sums_share, false);
  };
  return least_of_both(falling, landing, capacity.states - least);
}

// What has to move because it does not fit. All that devices do not update the host does, so its
// weights go up and its sums come down; and what neither devices nor DRAM hold rests on the drives,
// where every byte is read and written once per step.
Micros capacity_bound(const PlanQuestion& question, const Chain& chain) {
  const Capacity capacity = capacity_of(question, chain);
  if (capacity.states <= 0) return {};
  const double beside = capacity.states + capacity.waiting - capacity.devices;
  const double on_host = capacity.on_host();
  double up = on_host * capacity.weights_share, down = on_host * capacity.sums_share;
  if (question.clips && beside > 0) {
    up = std::max(up, beside * capacity.weights_share / (1 + capacity.most_sums_share));
    down = std::max(down, beside * capacity.sums_share / (1 + capacity.sums_share));
  }
  Micros bound = std::max(link_time(question, up, true), link_time(question, down, false));
  const Micros backwards = behind_updates(question, chain);
  if (question.clips) {
    bound = std::max(bound, renewing_and_landing(question, capacity, backwards));
  }

  // Of states of which so many bytes are updated ahead of the norm.
  const double traffic = update_traffic(question.gradients);
  const Rate dram = question.machine.host.memory_bandwidth;
  const auto through_dram = [&](Micros updates, double copied) {
    if (!dram.limited()) return Micros{};
    const double updated = updates.seconds() * update_rate(question) * traffic;
    return from_seconds((updated + copied) / dram.bytes_per_second);
  };
  const DriveArray drives = drive_array(question, chain);
  const double on_drives = std::max(0.0, beside - capacity.host);
  const auto moving = [&](double ahead) {  // DRAM has those twice at the norm
    const double bytes = std::max(0.0, beside + ahead - capacity.host);
    if (bytes <= 0) return Micros{};
    if (drives.count == 0) return Micros{ahead > 0 ? kMost : 0};
    const Micros reads = from_seconds(bytes / drives.read.bytes_per_second);
    return std::max(read_and_written(drives, bytes), reads + backwards);
  };
  const auto all = [&](double ahead) {
    const double kept = ahead * keeping_traffic() / traffic;
    const Micros updates =
        on_host > 0 ? Micros{(on_host + kept) * capacity.update_micros} : Micros{};
    const Micros dram_busy = through_dram(updates, up + down + 2 * on_drives);
    return std::max({moving(ahead), updates, dram_busy});
  };
  const auto behind_norm = [&](double ahead) {
    const Micros updates{(on_host - ahead) * capacity.update_micros};
    const double renewed = on_host * capacity.weights_share;
    return std::max(updates, through_dram(updates, renewed)) + backwards;
  };
  bound = std::max(bound, all(0));
  if (on_host <= 0) return bound;
  const double most = question.clips ? std::min(on_host, capacity.host / 2) : 0;
  return std::max(bound, least_of_both(behind_norm, all, most));
}

}  // namespace

Micros resident_lower_bound(const PlanQuestion& question, const Chain& chain) {
  const Work work = work_of(question, chain, true);
  return work.chain * question.micro_batches + work.updates;
}

Micros pipeline_lower_bound(const PlanQuestion& question, const Chain& chain) {
  const bool train = question.mode == PlanMode::train;
  const Work work = work_of(question, chain, true);
  const Micros all = work.chain * question.micro_batches + work.updates;
  const int devices = static_cast<int>(question.machine.devices.size());
  const double share = fewest_cores(question) / std::max(1, question.machine.host.cores);
  Micros bound = std::max(all * (1.0 / devices), all * share);
  for (const ChainBlock& block : chain.blocks) {  // each on one device
    Micros own;
    if (has_forward(block)) own += block.forward * question.micro_batches;
    if (train) own += least_backward(block) * question.micro_batches;
    if (train && block.trainable) own += block.device_update;
    bound = std::max(bound, own);
  }
  if (!train) return bound;
  const Micros to_first_update = through_sums(question, chain, work.chain);
  return std::max(bound, to_first_update + chain.blocks.front().device_update);
}

Micros streaming_lower_bound(const PlanQuestion& question, const Chain& chain) {
  const Work work = work_of(question, chain, false);
  const Micros compute = work.chain * question.micro_batches;
  const double cores = std::max(1, question.machine.host.cores);
  Micros bound = lower_bound(question, chain);
  bound = std::max(bound, compute * (fewest_cores(question) / cores) + work.updates);
  if (question.mode != PlanMode::train) return bound;
  const Micros renewing = link_time(question, static_cast<double>(work.weights.count), true);
  const Micros landing = link_time(question, static_cast<double>(work.sums.count), false);
  return std::max({bound, renewing + behind_updates(question, chain), landing});
}

Micros lower_bound(const PlanQuestion& question, const Chain& chain) {
  const Work work = work_of(question, chain, false);
  const Micros compute = work.chain * question.micro_batches;
  const int devices = static_cast<int>(question.machine.devices.size());
  const double share = fewest_cores(question) / std::max(1, question.machine.host.cores);
  Micros bound = compute * (1.0 / devices);
  if (question.mode != PlanMode::train) return std::max(bound, compute * share);

  Micros updates;  // on the cores, wherever they run
  for (const ChainBlock& block : chain.blocks) {
    if (block.trainable) updates += std::min(block.host_update, block.device_update * share);
  }
  bound = std::max(bound, compute * share + updates);
  bound = std::max(bound, through_sums(question, chain, work.chain));
  return std::max(bound, capacity_bound(question, chain));
}

}  // namespace ferry
