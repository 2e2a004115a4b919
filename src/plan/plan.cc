#include "plan/plan.h"

#include <algorithm>
#include <array>
#include <limits>
#include <unordered_map>

#include "base/check.h"
#include "base/device_block.h"
#include "base/input_file.h"
#include "base/temporary_file.h"
#include "plan/words.h"

namespace ferry {
namespace {

constexpr Bytes kLargestPlan = 1_GiB;

std::string name_at(const Plan& plan, const Instance& instance, int repeat) {
  std::string name = value_name(plan.values[instance.value]);
  name += '@';
  name += plan.places[instance.place].name;
  if (repeat > 0) name += '#' + std::to_string(repeat);
  return name;
}

}  // namespace

std::string value_name(const Value& value) {
  std::string name(to_string(value.kind));
  if (has_block(value.kind)) name += '.' + to_string(value.block);
  if (has_micro_batch(value.kind)) name += '.' + std::to_string(value.micro_batch);
  if (value.piece >= 0) name += '.' + std::to_string(value.piece);
  return name;
}

std::string instance_name(const Plan& plan, InstanceId id) {
  FERRY_CHECK(plan.instances.has(id), "no such instance: " + to_string(id));
  const Instance& named = plan.instances[id];
  int repeat = 0;
  for (const InstanceId other : plan.instances.ids()) {
    if (other == id) break;
    const Instance& before = plan.instances[other];
    if (before.value == named.value && before.place == named.place) ++repeat;
  }
  return name_at(plan, named, repeat);
}

IdVector<InstanceId, std::string> instance_names(const Plan& plan) {
  IdVector<InstanceId, std::string> names;
  names.reserve(plan.instances.size());
  std::unordered_map<std::uint64_t, int> repeats;  // (value, place) -> instances seen
  for (const Instance& instance : plan.instances) {
    const std::uint64_t key = std::uint64_t{instance.value.index()} << 32 | instance.place.index();
    names.push_back(name_at(plan, instance, repeats[key]++));
  }
  return names;
}

Bytes slots_end(const Plan& plan, PlaceId place) {
  Bytes end;
  for (const Instance& instance : plan.instances) {
    if (instance.place != place) continue;
    const Bytes size = plan.values[instance.value].bytes;
    end = std::max(end, instance.offset + size);
  }
  return end;
}

Bytes peak_bytes(const Plan& plan, PlaceId place) {
  const std::array<const Plan*, 1> alone = {&plan};
  return peak_bytes(alone, place);
}

Bytes peak_bytes(std::span<const Plan* const> plans, PlaceId place) {
  Bytes slots, workspace;
  for (const Plan* plan : plans) {
    slots = std::max(slots, slots_end(*plan, place));
    workspace = std::max(workspace, plan->places[place].workspace);
  }
  const bool device = plans.front()->places[place].kind == PlaceKind::device;
  return workspace + (device ? round_up(slots, kDeviceBlock) : slots);
}

Plan clipped(Plan plan) {
  IdVector<BlockId, Micros> updates(plan.blocks.size());
  for (const Task& task : plan.tasks) {
    if (task.kind == TaskKind::update) updates[task.block] = task.micros;
  }
  for (Task& task : plan.tasks) {
    if (task.kind == TaskKind::redo) task.micros = updates[task.block];
    task.refreshes = false;
  }
  return plan;
}

Bytes moved_bytes(const Task& task) { return task.refreshes ? Bytes{} : task.bytes; }

bool goes_between_devices(const Plan& plan, const Task& task) {
  if (task.kind != TaskKind::copy) return false;
  const auto at_device = [&](InstanceId id) {
    return plan.places[plan.instances[id].place].kind == PlaceKind::device;
  };
  return at_device(task.reads.front()) && at_device(task.writes.front());
}

Micros full_speed_time(const Plan& plan, const Task& task) {
  if (task.refreshes) return {};
  if (task.kind != TaskKind::copy) return task.micros;
  const Resource& link = plan.resources[task.resource];
  return task.micros + link.latency +
         from_seconds(static_cast<double>(task.bytes.count) / link.rate);
}

Plan read_plan(const std::filesystem::path& file) {
  return parse_plan(read_file(file, kLargestPlan), file.string());
}

void write_plan(const Plan& plan, const std::filesystem::path& file) {
  TemporaryFile writing(file);
  writing.append(to_text(plan));
  writing.rename();
}

}  // namespace ferry
