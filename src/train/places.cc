#include "train/places.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/check.h"
#include "base/device_block.h"
#include "base/drive_page.h"
#include "base/error.h"
#include "device/simulation.h"
#include "device/tensor_views.h"
#include "model/rotary.h"
#include "spec/drive_array.h"
#include "spec/memory_nodes.h"
#include "spec/nearest.h"

namespace ferry {
namespace {

/// The space behind the drives' place. What the plan counts on must be here.
std::unique_ptr<DriveSpace> open_space(const Place& place, Bytes size, const Machine& machine,
                                       PhaseListener& listener, const BoxAccess& access) {
  const std::vector<double> shares = drive_shares(machine, place.budget);
  std::vector<DriveSpace::Part> parts;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const Drive& drive = machine.drives[i];
    if (shares[i] <= 0) continue;
    parts.push_back({.folder = drive.path, .share = shares[i]});
    if (!drive.held) continue;
    parts.back().held = HeldRates{.read = drive.read.bytes_per_second,
                                  .write = drive.write.bytes_per_second,
                                  .duplex = drive.duplex};
  }
  if (parts.empty()) {
    throw UserError("the plan rests values on " + place.name +
                    ", and the machine has no drives to train on\n  try: a machine file whose "
                    "drives have `path`, `read` and `write`, or a plan without drives");
  }
  return std::make_unique<DriveSpace>(DriveSpace::Setup{.name = place.name,
                                                        .parts = std::move(parts),
                                                        .size = size,
                                                        .time_limit = access.time_limit,
                                                        .engine = access.engine},
                                      listener);
}

/// "ssd0: 43.6 MiB in out/drive, by io_uring, direct": once the memory that will be used is known.
std::string way_to(const PlaceMemory& drives) {
  std::string folders;
  for (const DriveTraffic::Part& part : drives.drive->traffic().parts) {
    folders += (folders.empty() ? "" : ", ") + part.folder.string();
  }
  return drives.name + ": " + to_string(drives.drive->size()) + " in " + folders + ", by " +
         drives.drive->io();
}

// Large enough for a drive's full rate, small beside kPieceMemory.
constexpr Bytes kPieceOfDrive = 4_MiB;

/// Calls `visit(begin, size)` for the parts of [begin, begin + size) that share one of the pieces
/// of `piece` bytes into which a space is cut.
template <typename Visit>
void for_each_piece(Bytes begin, Bytes size, Bytes piece, const Visit& visit) {
  const Bytes end = begin + size;
  while (begin < end) {
    const Bytes next = std::min(end, round_up(begin + 1_B, piece));
    visit(begin, next - begin);
    begin = next;
  }
}

template <typename Byte>
std::span<Byte> part(std::span<Byte> bytes, Bytes begin, Bytes size) {
  return bytes.subspan(static_cast<std::size_t>(begin.count), static_cast<std::size_t>(size.count));
}

Bytes size_of(std::span<const std::byte> bytes) {
  return {static_cast<std::int64_t>(bytes.size())};
}

const std::byte* end_of(std::span<const std::byte> bytes) { return bytes.data() + bytes.size(); }

/// The pages that hold [begin, begin + size).
struct PagesOf {
  PagesOf(Bytes part_begin, Bytes part_size)
      : begin(part_begin - Bytes{part_begin.count % kDrivePage.count}),
        size(round_up(part_begin + part_size, kDrivePage) - begin) {}

  Bytes begin, size;
};

/// "host: 96.0 GiB on NUMA nodes 0, 1 in turn, where its devices hang", or why not.
void lie_on(std::span<const int> nodes, PlaceMemory& host, PhaseListener& listener) {
  std::vector<std::string> numbers;
  for (const int node : nodes) numbers.push_back(std::to_string(node));
  const bool one = nodes.size() == 1;
  const std::string where = "NUMA node" + (one ? " " + numbers.front() : "s " + joined(numbers));
  const std::string refused = host.host->lie_on(nodes);
  const std::string what = host.name + ": " + to_string(host.host->size());
  if (refused.empty()) {
    return listener.phase(what + " on " + where + (one ? "" : " in turn") +
                          ", where its devices hang");
  }
  listener.phase(what + " where the kernel puts it, not on " + where +
                 ", where its devices hang: " + refused +
                 "; copies may be slower\n  try: a container that may choose nodes (docker: "
                 "--cap-add SYS_NICE) and has them (--cpuset-mems)");
}

/// Page-locks the host's memory. Where that is refused training goes on: a copy passes through
/// buffers of the driver's, and the thread that asks for it waits.
void lock_pages(PlaceMemory& host, const Device& device, PhaseListener& listener) {
  try {
    host.registration.emplace(device, host.host->bytes(), listener);
  } catch (const ResourceError& error) {
    listener.phase(
        std::string(error.what()) +
        "; going on without: copies pass through the driver's buffers, often at half the "
        "rate, and every copy stops the thread that starts tasks\n  try: a larger "
        "`ulimit -l`, or a smaller budget.host");
  }
}

/// `size` bytes that somebody else owns as a tensor.
at::Tensor blob(const std::byte* bytes, std::size_t size) {
  return at::from_blob(const_cast<std::byte*>(bytes), {static_cast<std::int64_t>(size)}, at::kByte);
}

}  // namespace

Places::Places(std::span<const Plan* const> plans, std::span<const std::string> device_names,
               const Machine& machine, PhaseListener& listener, const BoxAccess& access,
               const KernelFile& kernel_file) {
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
    switch (place.kind) {
      case PlaceKind::device:
        FERRY_CHECK(next_device < device_names.size(), "every device place has a device");
        memory.device = Device::open(device_names[next_device++]);
        memory.device->reset_peak();  // what was measured there before is of no run
        memory.slab = memory.device->slab(size);
        if (std::ranges::count(device_names, memory.device->name()) > 1) {
          memory.share =
              std::make_unique<MemoryShare>(*memory.device, round_up(size, kDeviceBlock));
        }
        memory.kernels = StepKernels::open(*memory.device, kernel_file, listener);
        break;
      case PlaceKind::host:
        memory.host = std::make_unique<HostSlab>(round_up(size, kDrivePage));
        break;
      case PlaceKind::drive:
        size = std::max(round_up(size, kDrivePage), kDrivePage);
        memory.drive = open_space(place, size, machine, listener, access);
        memory.pages = std::make_unique<Mapping>(kPieceOfDrive);
        break;
    }
    places_.push_back(std::move(memory));
  }
  take_host(std::max(1, machine.host.cores), listener, access.root);
  register_host(listener);
  for (const PlaceMemory& memory : places_) {
    if (memory.drive) listener.phase(way_to(memory));
  }
}

// Drives first: what they have in flight is in the host's memory.
Places::~Places() {
  for (PlaceMemory& memory : places_) memory.drive.reset();
}

Bytes Places::device_peak(PlaceId id) const {
  const PlaceMemory& place = places_[id];
  const auto users = std::ranges::count_if(places_, [&](const PlaceMemory& other) {
    return other.device && other.device->torch_device() == place.device->torch_device();
  });
  const Bytes taken = place.share ? place.share->peak() : place.device->memory_use().peak;
  return taken + Bytes{place.device->beside_tensors().count / users};
}

/// Backs the host's pages: only now are all devices known that copy from and to them.
void Places::take_host(int threads, PhaseListener& listener, const std::filesystem::path& root) {
  std::vector<std::string> addresses;
  for (const PlaceMemory& memory : places_) {
    if (memory.device) addresses.push_back(memory.device->pci_address());
  }
  const std::vector<int> nodes = nodes_near(root, addresses);
  for (PlaceMemory& memory : places_) {
    if (!memory.host) continue;
    if (!nodes.empty()) lie_on(nodes, memory, listener);
    memory.host->touch(threads, listener);
  }
}

/// Once for each kind of device, portable: every device of one kind may use it. And for drives.
void Places::register_host(PhaseListener& listener) {
  for (PlaceMemory& memory : places_) {
    if (!memory.host) continue;
    const auto device = std::ranges::find_if(
        places_, [](const PlaceMemory& other) { return other.device.has_value(); });
    if (device != places_.end()) lock_pages(memory, *device->device, listener);
    for (PlaceMemory& other : places_) {
      if (other.drive) other.drive->use_memory(memory.host->bytes());
    }
  }
}

Binding::Binding(const Plan& plan, Places& places)
    : plan_(plan), places_(places), names_(instance_names(plan)) {
  bytes_.reserve(plan.instances.size());
  for (const InstanceId id : plan.instances.ids()) {
    const Instance& instance = plan.instances[id];
    const Bytes size = plan.values[instance.value].bytes;
    const PlaceMemory& memory = places[instance.place];
    at::Tensor& bytes = bytes_.emplace_back();
    if (memory.device) bytes = ferry::view(memory.slab, instance.offset, {size.count}, at::kByte);
    if (memory.host) {
      bytes = host_view(memory.host->at(instance.offset, size), {size.count}, at::kByte);
    }
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

bool Binding::on_host(InstanceId id) const {
  return places_[plan_.instances[id].place].host != nullptr;
}

bool Binding::on_drive(InstanceId id) const {
  return places_[plan_.instances[id].place].drive != nullptr;
}

RotaryTable Binding::rotary(const ModelSpec& model, PlaceId place) const {
  PlaceMemory& memory = places_[place];
  if (model.positions != PositionKind::rotary || !memory.device) return {};
  if (!memory.rotary.cosine.defined()) {
    const at::ScalarType type = plan_.precision == Precision::bf16 ? at::kBFloat16 : at::kFloat;
    memory.on_account([&] {
      memory.rotary = rotary_table(model, plan_.sequence,
                                   at::TensorOptions(type).device(memory.device->torch_device()));
    });
    memory.device->synchronize();  // any stream may read it from now on
  }
  return memory.rotary;
}

const StepKernels* Binding::kernels(InstanceId id) const {
  return places_[plan_.instances[id].place].kernels.get();
}

void Binding::name_slot(InstanceId id) const {
  if (on_drive(id)) return;
  const at::Tensor& slot = bytes(id);
  simdev_name_range(slot.data_ptr(), Bytes{slot.numel()}, names_[id]);
}

Binding::Transfer Binding::transfer(const Task& task) const {
  const InstanceId from = task.reads.front(), to = task.writes.front();
  const bool writes = on_drive(to);
  const Instance& resting = plan_.instances[writes ? to : from];
  const Instance& passing = plan_.instances[writes ? from : to];
  const PlaceMemory &drives = places_[resting.place], &host = places_[passing.place];
  FERRY_CHECK(drives.drive && host.host, "a drive's copies are between it and DRAM");
  const Bytes pages = round_up(plan_.values[resting.value].bytes, kDrivePage);
  return {drives.drive.get(), resting.offset, host.host->at(passing.offset, pages), writes};
}

template <typename Visit>
void Binding::for_each_stretch(InstanceId id, Bytes offset, Bytes size, const Visit& visit) const {
  const Instance& instance = plan_.instances[id];
  const PlaceMemory& place = places_[instance.place];
  const Bytes first = instance.offset + offset;
  const auto buffer = place.pages->bytes();
  for_each_piece(first, size, size_of(buffer), [&](Bytes begin, Bytes length) {
    const PagesOf pages(begin, length);
    visit({.drive = *place.drive,
           .offset = pages.begin,
           .pages = part(buffer, {}, pages.size),
           .bytes = part(buffer, begin - pages.begin, length),
           .begin = begin - first});
  });
}

void Binding::read(InstanceId id, Bytes offset, std::span<std::byte> to) const {
  if (on_host(id)) {
    std::ranges::copy(part(host(id), offset, size_of(to)), to.begin());
    return;
  }
  if (!on_drive(id)) {
    const auto size = static_cast<std::int64_t>(to.size());
    blob(to.data(), to.size()).copy_(view(id, offset, {size}, at::kByte));
    return;
  }
  for_each_stretch(id, offset, size_of(to), [&](const Stretch& stretch) {
    stretch.drive.read_now(stretch.offset, stretch.pages);
    std::ranges::copy(stretch.bytes, part(to, stretch.begin, size_of(stretch.bytes)).begin());
  });
}

void Binding::write(InstanceId id, Bytes offset, std::span<const std::byte> from) const {
  if (on_host(id)) {
    std::ranges::copy(from, part(host(id), offset, size_of(from)).begin());
    return;
  }
  if (!on_drive(id)) {
    const auto size = static_cast<std::int64_t>(from.size());
    view(id, offset, {size}, at::kByte).copy_(blob(from.data(), from.size()));
    return;
  }
  for_each_stretch(id, offset, size_of(from), [&](const Stretch& stretch) {
    // What else is in the first and the last page stays.
    const Bytes last = size_of(stretch.pages) - kDrivePage;
    if (stretch.bytes.data() > stretch.pages.data()) {
      stretch.drive.read_now(stretch.offset, part(stretch.pages, {}, kDrivePage));
    }
    if (end_of(stretch.bytes) < end_of(stretch.pages)) {
      stretch.drive.read_now(stretch.offset + last, part(stretch.pages, last, kDrivePage));
    }
    std::ranges::copy(part(from, stretch.begin, size_of(stretch.bytes)), stretch.bytes.begin());
    stretch.drive.write_now(stretch.offset, stretch.pages);
  });
}

void Binding::clear(InstanceId id, Bytes offset, Bytes size) const {
  if (on_host(id)) {
    std::ranges::fill(part(host(id), offset, size), std::byte{0});
    return;
  }
  if (!on_drive(id)) {
    view(id, offset, {size.count}, at::kByte).zero_();
    places_[plan_.instances[id].place].device->synchronize();  // any stream may read it from now on
    return;
  }
  const std::vector<std::byte> zeros(static_cast<std::size_t>(std::min(size, 1_MiB).count));
  for (Bytes done; done < size;) {
    const Bytes next = std::min(size_of(zeros), size - done);
    write(id, offset + done, std::span(zeros).first(static_cast<std::size_t>(next.count)));
    done += next;
  }
}

}  // namespace ferry
