#include "planner/fewer_devices.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <numeric>
#include <ranges>
#include <set>
#include <tuple>
#include <utility>

#include "planner/costs/estimate.h"
#include "planner/costs/queues.h"
#include "spec/strategy_names.h"

namespace ferry {
namespace {

using Devices = std::vector<std::size_t>;  // of the machine, ascending

bool equally_fast(const MachineDevice& one, const MachineDevice& other) {
  const auto speed = [](const MachineDevice& device) {
    return std::tuple(device.kind, device.threads, device.flops_fp32, device.flops_bf16,
                      device.memory_bandwidth.bytes_per_second, device.up.bytes_per_second,
                      device.down.bytes_per_second, device.p2p.bytes_per_second,
                      device.latency.count, device.copies_in_turn);
  };
  return speed(one) == speed(other);
}

std::vector<Devices> by_speed(const Machine& machine) {
  std::vector<Devices> groups;
  for (std::size_t d = 0; d < machine.devices.size(); ++d) {
    const auto same = std::ranges::find_if(groups, [&](const Devices& group) {
      return equally_fast(machine.devices[group.front()], machine.devices[d]);
    });
    (same == groups.end() ? groups.emplace_back() : *same).push_back(d);
  }
  return groups;
}

// By what all blocks take, and what moves them.
bool is_faster(const PlanQuestion& one, const PlanQuestion& other) {
  const auto rank = [](const PlanQuestion& question) {
    Micros time;
    for (const int at : question.profile.chain) {
      const BlockProfile& block = question.profile.blocks[static_cast<std::size_t>(at)];
      time += block.forward + block.backward;
    }
    const Rate up = question.machine.devices.front().up;
    constexpr double kAtOnce = std::numeric_limits<double>::infinity();
    return std::tuple(time.count, up.limited() ? -up.bytes_per_second : -kAtOnce);
  };
  return rank(one) < rank(other);
}

bool may_choose_devices(const PlanQuestion& question) {
  const PlanJob& options = question.options;
  const bool is_free = question.strategy == strategy_name::kAuto ||
                       question.strategy == strategy_name::kMobius ||
                       question.strategy == strategy_name::kResident;
  return is_free && question.mode == PlanMode::train && !question.model.blocks.empty() &&
         !question.shared && !options.devices && !options.stages &&
         options.map == MapRule::automatic;
}

// All, and where speeds differ those of each speed, and the fastest.
std::vector<Devices> sets_by_speed(const PlanQuestion& question) {
  Devices all(question.machine.devices.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  std::vector<Devices> groups = by_speed(question.machine);
  if (groups.size() < 2) return {all};
  std::ranges::sort(groups, [&](const Devices& one, const Devices& other) {
    return is_faster(with_devices(question, one), with_devices(question, other));
  });
  std::vector<Devices> chosen = {all};
  chosen.insert(chosen.end(), groups.begin(), groups.end());
  Devices fastest = groups.front();
  for (std::size_t g = 1; g + 1 < groups.size(); ++g) {
    fastest.insert(fastest.end(), groups[g].begin(), groups[g].end());
    std::ranges::sort(fastest);
    chosen.push_back(fastest);
  }
  return chosen;
}

// Those of the devices that have no less than each size but the least, the most of them first.
std::vector<Devices> larger_ones(const PlanQuestion& question, const Devices& devices) {
  const auto memory = [&](std::size_t d) { return device_limit(question, static_cast<int>(d)); };
  std::set<Bytes> sizes;
  for (const std::size_t d : devices) sizes.insert(memory(d));
  std::vector<Devices> sets;
  for (const Bytes size : sizes | std::views::drop(1)) {
    Devices& large = sets.emplace_back();
    std::ranges::copy_if(devices, std::back_inserter(large),
                         [&](std::size_t d) { return memory(d) >= size; });
  }
  return sets;
}

}  // namespace

PlanQuestion with_devices(const PlanQuestion& question, const Devices& devices) {
  PlanQuestion some = question;
  some.machine.devices.clear();
  some.device_budgets.clear();
  for (const std::size_t d : devices) {
    some.machine.devices.push_back(question.machine.devices[d]);
    some.device_budgets.push_back(device_budget(question, static_cast<int>(d)));
  }
  if (question.model.blocks.empty()) return some;
  const auto estimate = [&](const Machine& machine) {
    return estimate_profile(question.model, machine, question.precision,
                            {question.micro_batch_size, question.sequence});
  };
  if (question.profile == estimate(question.machine)) some.profile = estimate(some.machine);
  return some;
}

std::vector<PlanQuestion> on_fewer_devices(const PlanQuestion& question) {
  if (!may_choose_devices(question)) return {};
  std::vector<Devices> chosen = sets_by_speed(question);
  for (std::size_t s = 0, count = chosen.size(); s < count; ++s) {
    for (Devices& large : larger_ones(question, chosen[s])) {
      if (std::ranges::find(chosen, large) == chosen.end()) chosen.push_back(std::move(large));
    }
  }
  std::vector<PlanQuestion> questions;
  for (const Devices& devices : chosen | std::views::drop(1)) {  // all are planned already
    questions.push_back(with_devices(question, devices));
  }
  return questions;
}

}  // namespace ferry
