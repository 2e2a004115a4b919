#include "train/places.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/check.h"
#include "device/simulation.h"
#include "device/tensor_views.h"

namespace ferry {

Places::Places(std::span<const Plan* const> plans, std::span<const std::string> device_names,
               int touch_threads, PhaseListener& listener) {
  const Plan& first = *plans.front();
  std::size_t next_device = 0;
  for (const PlaceId id : first.places.ids()) {
    const Place& place = first.places[id];
    Bytes size;
    for (const Plan* plan : plans) {
      FERRY_CHECK(plan->places.size() == first.places.size() && plan->places[id].name == place.name,
                  "the plans of one run name the same places");
      size = std::max(size, slots_end(*plan, id));
    }
    PlaceMemory memory;
    memory.name = place.name;
    if (place.kind == PlaceKind::device) {
      FERRY_CHECK(next_device < device_names.size(), "every device place has a device");
      memory.device = Device::open(device_names[next_device++]);
      memory.slab = memory.device->slab(size);
    } else {
      FERRY_CHECK(place.kind == PlaceKind::host, "drives come with a later release");
      memory.host = std::make_unique<HostSlab>(size);
      memory.host->touch(touch_threads, listener);
    }
    places_.push_back(std::move(memory));
  }
  for (PlaceMemory& memory : places_) {
    if (!memory.host) continue;
    for (PlaceMemory& other : places_) {
      if (!other.device) continue;
      memory.registration.emplace(*other.device, memory.host->bytes(), listener);
      break;  // registered once, portable: every device of one kind may use it
    }
  }
}

Binding::Binding(const Plan& plan, Places& places)
    : plan_(plan), places_(places), names_(instance_names(plan)) {
  bytes_.reserve(plan.instances.size());
  for (const InstanceId id : plan.instances.ids()) {
    const Instance& instance = plan.instances[id];
    const Bytes size = plan.values[instance.value].bytes;
    PlaceMemory& memory = places[instance.place];
    bytes_.push_back(
        memory.device ? ferry::view(memory.slab, instance.offset, {size.count}, at::kByte)
                      : host_view(memory.host->at(instance.offset, size), {size.count}, at::kByte));
    name_slot(id);
  }
}

at::Tensor Binding::view(InstanceId id, Bytes offset, at::IntArrayRef sizes,
                         at::ScalarType type) const {
  return ferry::view(bytes(id), offset, sizes, type);
}

std::span<std::byte> Binding::host(InstanceId id) const {
  FERRY_CHECK(on_host(id), "only the host's instances are spans");
  const at::Tensor& tensor = bytes(id);
  return {static_cast<std::byte*>(tensor.data_ptr()), static_cast<std::size_t>(tensor.numel())};
}

void Binding::name_slot(InstanceId id) const {
  const at::Tensor& slot = bytes(id);
  simdev_name_range(slot.data_ptr(), Bytes{slot.numel()}, names_[id]);
}

bool Binding::on_host(InstanceId id) const {
  return !places_[plan_.instances[id].place].device.has_value();
}

}  // namespace ferry
