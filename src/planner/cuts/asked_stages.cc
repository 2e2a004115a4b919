#include "planner/cuts/asked_stages.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "base/error.h"
#include "planner/cuts/mapping.h"

namespace ferry {
namespace {

std::size_t index(int id) { return static_cast<std::size_t>(id); }

int device_count(const PlanQuestion& question) {
  return static_cast<int>(question.machine.devices.size());
}

void check_devices(const PlanQuestion& question, const std::vector<int>& devices) {
  for (const int device : devices) {
    if (device >= 0 && device < device_count(question)) continue;
    throw UserError("plan.devices: expected devices from 0 to " +
                    std::to_string(device_count(question) - 1) + ", found " +
                    std::to_string(device));
  }
}

std::vector<int> in_turn(const std::vector<int>& slots, int stages) {
  std::vector<int> map;
  for (int s = 0; s < stages; ++s) map.push_back(slots[index(s) % slots.size()]);
  return map;
}

}  // namespace

std::vector<int> ends_of(const std::vector<int>& counts, int blocks, const std::string& key) {
  std::vector<int> ends;
  int end = 0;
  for (const int count : counts) {
    if (count < 1) throw UserError(key + ": a stage has at least one block");
    ends.push_back(end += count);
  }
  if (end != blocks) {
    throw UserError(key + ": the stages have " + std::to_string(end) + " blocks, the chain has " +
                    std::to_string(blocks));
  }
  return ends;
}

std::vector<std::optional<int>> roots_of(const Machine& machine) {
  std::vector<std::optional<int>> roots;
  for (const MachineDevice& device : machine.devices) roots.push_back(device.root);
  return roots;
}

std::vector<int> asked_map(const PlanQuestion& question, int stages) {
  if (const auto& devices = question.options.devices) {
    check_devices(question, *devices);
    if (static_cast<int>(devices->size()) != stages) {
      throw UserError("plan.devices: expected a device for each of the " + std::to_string(stages) +
                      " stages, found " + std::to_string(devices->size()));
    }
    return *devices;
  }
  switch (question.options.map) {
    case MapRule::automatic:
    case MapRule::sequential:
      break;
    case MapRule::cross:
      return in_turn(cross_mapping(roots_of(question.machine), stages), stages);
    case MapRule::v:
      return v_map(stages, device_count(question));
  }
  return cyclic_map(stages, device_count(question));
}

std::vector<int> asked_slots(const PlanQuestion& question, int stages) {
  const int count = device_count(question);
  if (const auto& devices = question.options.devices) {
    check_devices(question, *devices);
    const std::vector<int> slots(
        devices->begin(), devices->begin() + std::min<std::ptrdiff_t>(count, std::ssize(*devices)));
    const std::vector<int> stage_map = in_turn(slots, stages);
    std::vector<int> sorted = slots;
    std::sort(sorted.begin(), sorted.end());
    const bool once = std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end() &&
                      static_cast<int>(slots.size()) == count;
    if (!once || (*devices != slots && *devices != stage_map)) {
      throw UserError("plan.devices: stages take " + std::to_string(count) +
                      " slots in turn; expected each device once, for the slots, or the same again "
                      "for each of the " +
                      std::to_string(stages) + " stages");
    }
    return slots;
  }
  switch (question.options.map) {
    case MapRule::automatic:
    case MapRule::cross:
      return cross_mapping(roots_of(question.machine), stages);
    case MapRule::sequential:
      break;
    case MapRule::v:
      throw UserError(
          "plan.map: v is of stages, and here stages take slots in turn; expected "
          "cross or sequential");
  }
  return cyclic_map(count, count);
}

}  // namespace ferry
