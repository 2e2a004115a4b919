#include "planner/cuts/asked_stages.h"

#include <algorithm>
#include <cstddef>

#include "base/error.h"
#include "planner/cuts/mapping.h"

namespace ferry {
namespace {

int device_count(const PlanQuestion& question) {
  return static_cast<int>(question.machine.devices.size());
}

std::vector<int> in_turn(const std::vector<int>& slots, int stages) {
  std::vector<int> map;
  for (int s = 0; s < stages; ++s) map.push_back(slots[s % slots.size()]);
  return map;
}

}  // namespace

std::vector<int> ends_of(const std::vector<int>& counts, int blocks, const std::string& key) {
  std::vector<int> ends;
  int end = 0;
  for (const int count : counts) {
    if (count < 1) throw JobKeyError(key, "a stage has at least one block");
    ends.push_back(end += count);
  }
  if (end == blocks) return ends;
  throw JobKeyError(key, "the stages have " + std::to_string(end) + " blocks, the chain has " +
                             std::to_string(blocks));
}

std::optional<std::vector<int>> asked_ends(const PlanQuestion& question, int blocks) {
  if (!question.options.stages) return std::nullopt;
  return ends_of(*question.options.stages, blocks, "plan.stages");
}

std::vector<std::optional<int>> roots_of(const Machine& machine) {
  std::vector<std::optional<int>> roots;
  for (const MachineDevice& device : machine.devices) roots.push_back(device.root);
  return roots;
}

std::vector<int> asked_devices(const PlanQuestion& question) {
  const int count = device_count(question);
  if (!question.options.devices) return cyclic_map(count, count);
  const std::vector<int>& devices = *question.options.devices;
  if (devices.empty()) throw JobKeyError("plan.devices", "names no device; leave it out for all");
  for (const int device : devices) {
    if (device >= 0 && device < count) continue;
    throw JobKeyError("plan.devices", "expected devices from 0 to " + std::to_string(count - 1) +
                                          ", found " + std::to_string(device));
  }
  return devices;
}

std::vector<int> asked_map(const PlanQuestion& question, int stages) {
  const PlanJob& options = question.options;
  const std::vector<int> devices = asked_devices(question);
  if (options.map == MapRule::cross && !options.devices) return cross_map(question, stages);
  const int width = static_cast<int>(devices.size());
  std::vector<int> map =
      options.map == MapRule::v ? v_map(stages, width) : cyclic_map(stages, width);
  for (int& device : map) device = devices[device];
  return map;
}

std::vector<int> cross_map(const PlanQuestion& question, int stages) {
  return in_turn(cross_mapping(roots_of(question.machine), stages), stages);
}

std::vector<int> asked_slots(const PlanQuestion& question, int stages) {
  const int count = device_count(question);
  if (question.options.devices) {
    const std::vector<int> devices = asked_devices(question);
    const std::vector<int> slots(
        devices.begin(), devices.begin() + std::min<std::ptrdiff_t>(count, std::ssize(devices)));
    std::vector<int> sorted = slots;
    std::sort(sorted.begin(), sorted.end());
    const bool once = sorted == cyclic_map(count, count);
    if (once && (devices == slots || devices == in_turn(slots, stages))) return slots;
    throw JobKeyError("plan.devices",
                      "stages take " + std::to_string(count) +
                          " slots in turn; expected each device once, for the slots, or the same "
                          "again for each of the " +
                          std::to_string(stages) + " stages");
  }
  switch (question.options.map) {
    case MapRule::automatic:
    case MapRule::cross:
      return cross_mapping(roots_of(question.machine), stages);
    case MapRule::sequential:
      break;
    case MapRule::v:
      throw JobKeyError("plan.map",
                        "v is of stages, and here stages take slots in turn; expected cross or "
                        "sequential");
  }
  return cyclic_map(count, count);
}

}  // namespace ferry
