#include "simdev/sim_machine.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/AutogradState.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/error.h"
#include "base/kernel_team.h"
#include "simdev/backend.h"

namespace ferry {
namespace {

// The registered back end is a process-wide thing of torch's, and so is the machine behind it. It
// is left behind when a process ends without simdev_close(), because its threads may still run.
std::atomic<SimMachine*> open_machine = nullptr;
std::atomic<std::uint64_t> openings = 0;
std::atomic<c10::StreamId> next_stream_id = 1;  // 0 is every device's default stream

struct ThreadState {
  std::uint64_t opening = 0;
  int device = 0;
  std::vector<c10::StreamId> streams;  // the current one of each device; missing = 0
  int host_actor = HazardDetector::kHost;
};
thread_local ThreadState thread_state;
thread_local std::string thread_label;

ThreadState& this_thread() {
  if (const auto opening = openings.load(); thread_state.opening != opening) {
    thread_state = {.opening = opening, .device = 0, .streams = {}};
  }
  return thread_state;
}

std::string device_name(int device) {
  return device < 0 ? "host" : "sim:" + std::to_string(device);
}

/// What went wrong in a task, without torch's backtrace.
std::string text_of(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  return torch_error ? torch_error->what_without_backtrace() : error.what();
}

Route make_route(const std::vector<Draw>& draws, double latency_micros) {
  return draws.empty() ? Route{} : Route{draws, draws.front().rate, {latency_micros}};
}

void check_options(const SimOptions& options) {
  const auto pools = static_cast<int>(options.pool_capacities.size());
  for (const double capacity : options.pool_capacities) {
    FERRY_CHECK(capacity > 0, "a link of simulated devices needs a capacity");
  }
  for (const SimDeviceSpec& spec : options.devices) {
    FERRY_CHECK(spec.memory >= 0_B && spec.threads > 0, "a simulated device needs memory, threads");
    for (const auto* draws : {&spec.up, &spec.down, &spec.peer_out, &spec.peer_in}) {
      for (const Draw& draw : *draws) {
        FERRY_CHECK(draw.pool >= 0 && draw.pool < pools && draw.rate > 0,
                    "a draw of a simulated device needs a pool that exists and a rate");
      }
    }
  }
}

/// A copy passes both at the slower one's speed, to which the other is scaled.
Route joined(Route both, const Route& other) {
  if (other.rate <= 0) return both;
  if (both.rate <= 0) return other;
  const double rate = std::min(both.rate, other.rate);
  for (Draw& draw : both.draws) draw.rate *= rate / both.rate;
  for (Draw draw : other.draws) {
    draw.rate *= rate / other.rate;
    both.draws.push_back(draw);
  }
  both.rate = rate;
  both.latency = std::max(both.latency, other.latency);
  return both;
}

}  // namespace

SimMachine& sim_machine() {
  SimMachine* machine = open_machine.load();
  TORCH_CHECK(machine != nullptr, "no simulated device is open");
  return *machine;
}

SimMachine* open_sim_machine() { return open_machine.load(); }

int current_device() { return this_thread().device; }

void set_current_device(int device) { this_thread().device = device; }

c10::StreamId current_stream_id(int device) {
  const auto& streams = this_thread().streams;
  const auto i = static_cast<std::size_t>(device);
  return i < streams.size() ? streams[i] : 0;
}

void set_current_stream_id(int device, c10::StreamId id) {
  auto& streams = this_thread().streams;
  const auto i = static_cast<std::size_t>(device);
  if (streams.size() <= i) streams.resize(i + 1, 0);
  streams[i] = id;
}

int host_actor() { return this_thread().host_actor; }

SimStream& current_stream(int device) {
  return sim_machine().stream(device, current_stream_id(device));
}

SimMachine::SimMachine(const SimOptions& options)
    : options_(options), links_(options.pool_capacities), first_stream_id_(next_stream_id) {
  check_options(options);
  for (const SimDeviceSpec& spec : options_.devices) {
    auto device = std::make_unique<Device>();
    device->spec = spec;
    device->memory = std::make_shared<DeviceMemory>(spec.memory);
    device->up = make_route(spec.up, spec.latency_micros);
    device->down = make_route(spec.down, spec.latency_micros);
    device->peer_out = make_route(spec.peer_out, spec.latency_micros);
    device->peer_in = make_route(spec.peer_in, spec.latency_micros);
    devices_.push_back(std::move(device));
  }
  for (int device = 0; device < device_count(); ++device) new_stream(device);
}

// Streams wait for events of one another, so all must be idle before the first thread is joined.
SimMachine::~SimMachine() {
  for (int device = 0; device < device_count(); ++device) {
    for (SimStream* stream : streams(device)) {
      try {
        stream->queue.wait();
      } catch (const std::exception&) {
        continue;  // nobody waited for it; simdev_close() says that it is dropped
      }
    }
  }
}

SimMachine::Device& SimMachine::at(int device) {
  TORCH_CHECK(device >= 0 && device < device_count(), "sim:", device, " is not open; there are ",
              device_count(), " simulated devices");
  return *devices_[static_cast<std::size_t>(device)];
}

SimStream& SimMachine::stream(int device, c10::StreamId id) {
  Device& owner = at(device);
  const std::lock_guard lock(owner.mutex);
  if (id == 0) return *owner.streams.front();
  for (const auto& stream : owner.streams) {
    if (stream->id == id) return *stream;
  }
  TORCH_CHECK(false, "stream ", id, " of sim:", device, " is of an earlier opening, or of nobody");
}

SimStream& SimMachine::new_stream(int device) {
  Device& owner = at(device);
  const std::lock_guard lock(owner.mutex);
  const bool first = owner.streams.empty();
  const c10::StreamId id = first ? 0 : next_stream_id++;
  const std::string name =
      device_name(device) + (first ? "/default" : "/stream" + std::to_string(owner.streams.size()));
  const int threads = owner.spec.threads;
  owner.streams.push_back(std::make_unique<SimStream>(
      device, id, detector_.add_actor(name), options_.launch_queue,
      [threads] {
        // torch sets a new thread to the last number anybody asked for, at the thread's first look;
        // only what is asked for after that look stays.
        at::get_num_threads();
        at::set_num_threads(threads);
        c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
        at::GradMode::set_enabled(false);
      },
      release_kernel_team));
  owner.stream_names.push_back(name);
  return *owner.streams.back();
}

std::vector<SimStream*> SimMachine::streams(int device) {
  Device& owner = at(device);
  const std::lock_guard lock(owner.mutex);
  std::vector<SimStream*> all;
  for (const auto& stream : owner.streams) all.push_back(stream.get());
  return all;
}

void SimMachine::name_stream(int device, c10::StreamId id, const std::string& name) {
  const SimStream& named = stream(device, id);
  const std::string full = device_name(device) + "/" + name;
  detector_.rename_actor(named.actor, full);
  Device& owner = at(device);
  const std::lock_guard lock(owner.mutex);
  for (std::size_t i = 0; i < owner.streams.size(); ++i) {
    if (owner.streams[i].get() == &named) owner.stream_names[i] = full;
  }
}

std::string SimMachine::stream_name(const SimStream& stream) {
  Device& owner = at(stream.device);
  const std::lock_guard lock(owner.mutex);
  for (std::size_t i = 0; i < owner.streams.size(); ++i) {
    if (owner.streams[i].get() == &stream) return owner.stream_names[i];
  }
  return device_name(stream.device);
}

void SimMachine::enqueue(SimStream& stream, std::string op, const Ranges& ranges,
                         TaskQueue::Task task) {
  if (options_.hazards) detector_.access(stream.actor, op, thread_label, ranges, host_actor());
  stream.queue.push(
      [this, &stream, op = std::move(op), label = thread_label, task = std::move(task)] {
        try {
          task();
        } catch (const std::exception& error) {
          throw ResourceError(stream_name(stream) + ": " + op +
                              (label.empty() ? "" : " of task " + label) + ": " + text_of(error));
        }
      });
}

void SimMachine::record(SimEvent& event, SimStream& stream) {
  if (!event.event) event.event = std::make_shared<StreamEvent>();
  event.device = stream.device;
  stream.queue.record(
      event.event, options_.hazards ? detector_.clock(stream.actor, host_actor()) : HazardClock{});
}

void SimMachine::block(const SimEvent& event, SimStream& stream) {
  if (!event.event) return;
  if (options_.hazards) detector_.join(stream.actor, event.event->latest().clock);
  stream.queue.block(event.event);
}

void SimMachine::wait_stream(SimStream& stream) {
  ++at(stream.device).host_syncs;
  // The clock is taken first: what other threads enqueue meanwhile is not waited for.
  const HazardClock seen =
      options_.hazards ? detector_.clock(stream.actor, host_actor()) : HazardClock{};
  stream.queue.wait();
  detector_.join(host_actor(), seen);
}

void SimMachine::wait_device(int device) {
  ++at(device).host_syncs;
  for (SimStream* stream : streams(device)) {
    const HazardClock seen =
        options_.hazards ? detector_.clock(stream->actor, host_actor()) : HazardClock{};
    stream->queue.wait();
    detector_.join(host_actor(), seen);
  }
}

void SimMachine::wait_event(const SimEvent& event) {
  if (!event.event) return;
  ++at(event.device).host_syncs;
  const auto latest = event.event->latest();
  const auto error = take(event.event->wait(latest.number));
  detector_.join(host_actor(), latest.clock);
  if (error) std::rethrow_exception(error);
}

bool SimMachine::query_event(const SimEvent& event) {
  if (!event.event) return true;
  const auto latest = event.event->latest();
  if (!event.event->completed(latest.number)) return false;
  const auto error = take(event.event->wait(latest.number));
  if (options_.queries_order) detector_.join(host_actor(), latest.clock);
  if (error) std::rethrow_exception(error);
  return true;
}

bool SimMachine::query_stream(SimStream& stream) {
  const HazardClock seen =
      options_.hazards ? detector_.clock(stream.actor, host_actor()) : HazardClock{};
  if (!stream.queue.idle()) return false;
  if (const auto error = stream.queue.take_error()) std::rethrow_exception(error);
  detector_.join(host_actor(), seen);
  return true;
}

void SimMachine::count_drain(int device, const std::string& op, const std::string& why) {
  TORCH_CHECK(!options_.strict, op, " would drain its stream on sim:", device, ": ", why);
  Device& owner = at(device);
  const std::lock_guard lock(owner.mutex);
  ++owner.drains[op];
}

long SimMachine::count_copy(int from, int to, Bytes size) {
  Device& owner = at(std::max(to, from));
  ++owner.copies;
  const std::lock_guard lock(owner.mutex);
  owner.bytes_copied += size;
  return ++copies_started_;
}

Route SimMachine::route(int from, int to) {
  if (from < 0) return at(to).up;
  if (to < 0) return at(from).down;
  const Route &out = at(from).peer_out, &in = at(to).peer_in;
  const bool straight = out.rate > 0 && in.rate > 0;
  return straight ? joined(out, in) : joined(at(from).down, at(to).up);
}

void SimMachine::spoil_copies(int from, int to) {
  const std::lock_guard lock(spoiled_mutex_);
  spoiled_.emplace(from, to);
}

bool SimMachine::spoils(const Copy& copy) {
  const std::lock_guard lock(spoiled_mutex_);
  return spoiled_.contains({copy.from, copy.to});
}

void SimMachine::carry(const Copy& copy, const std::function<void()>& move) {
  const bool fails = copy.number == failing_copy_.load();
  TaskQueue& queue = TaskQueue::current();
  const auto move_unless_failing = [&] {
    if (!fails) move();
  };
  queue.end_at(
      links_.carry(route(copy.from, copy.to), copy.size, move_unless_failing, queue.ready()));
  if (fails) throw ResourceError("the copy failed, as simdev_fail_copy() asked for");
}

std::string SimMachine::lock_pages(const std::byte* begin, Bytes size) {
  if (!options_.lockable) return "";
  const std::lock_guard lock(locked_mutex_);
  Bytes all = size;
  for (const auto& [other, locked] : locked_) all += locked;
  if (all > *options_.lockable) {
    return to_string(all) + " in all, and " + to_string(*options_.lockable) + " may be locked";
  }
  locked_[begin] = size;
  return "";
}

std::string SimMachine::unlock_pages(const std::byte* begin) {
  if (!options_.lockable) return "";
  const std::lock_guard lock(locked_mutex_);
  return locked_.erase(begin) == 1 ? "" : "was not locked";
}

bool SimMachine::is_pageable(const AccessedRange& range) {
  if (!options_.lockable) return false;
  const std::lock_guard lock(locked_mutex_);
  auto after = locked_.upper_bound(range.begin);
  if (after == locked_.begin()) return true;
  const auto& [begin, size] = *--after;
  return range.begin + range.size.count > begin + size.count;
}

MemoryBlock SimMachine::allocate(SimStream& stream, Bytes size) {
  DeviceMemory& memory = *at(stream.device).memory;
  auto result = memory.allocate(size, stream.id);
  TORCH_CHECK_WITH(OutOfMemoryError, result.fits, "sim:", stream.device,
                   " is out of memory: ", size.count, " bytes (", to_string(size), ") asked for, ",
                   memory.in_use().count, " of ", memory.cap().count, " (", to_string(memory.cap()),
                   ", the device's cap) in use");
  release(stream.device, result.surplus);
  const MemoryBlock& block = result.block;
  const AccessedRange range{block.data, block.size, true};
  if (options_.poison && block.fresh) {
    enqueue(stream, "allocate", {range},
            [block] { std::memset(block.data, 0xFF, static_cast<std::size_t>(block.size.count)); });
  } else if (options_.hazards) {
    detector_.access(stream.actor, "allocate", thread_label, {&range, 1}, host_actor());
  }
  return block;
}

void SimMachine::give_back(int device, const MemoryBlock& block,
                           const std::vector<c10::StreamId>& users) {
  SimStream& home = stream(device, block.stream);
  for (const c10::StreamId user : users) {
    SimEvent event;
    record(event, stream(device, user));
    this->block(event, home);
  }
  const AccessedRange range{block.data, block.size, true};
  if (options_.poison) {
    enqueue(home, "free", {range},
            [block] { std::memset(block.data, 0xFF, static_cast<std::size_t>(block.size.count)); });
  } else if (options_.hazards) {
    detector_.access(home.actor, "free", thread_label, {&range, 1}, host_actor());
  }
  release(device, at(device).memory->give_back(block));
}

void SimMachine::give_back_unused(int device) { release(device, at(device).memory->take_unused()); }

void SimMachine::release(int device, const std::vector<MemoryBlock>& blocks) {
  for (const MemoryBlock& block : blocks) {
    stream(device, block.stream).queue.push([this, block] {
      if (options_.hazards) detector_.forget(block.data, block.capacity);
      DeviceMemory::release(block);
    });
  }
}

SimStats SimMachine::stats(int device) {
  Device& owner = at(device);
  const std::lock_guard lock(owner.mutex);
  SimStats stats;
  stats.live = owner.memory->in_use();
  stats.peak = owner.memory->peak();
  stats.unused = owner.memory->unused();
  stats.async_ops = owner.async_ops;
  stats.drains = owner.drains;
  stats.copies = owner.copies;
  stats.bytes_copied = owner.bytes_copied;
  stats.host_syncs = owner.host_syncs;
  for (const auto& stream : owner.streams) stats.launch_waits += stream->queue.times_full();
  return stats;
}

void SimMachine::reset_stats() {
  for (const auto& owner : devices_) {
    const std::lock_guard lock(owner->mutex);
    owner->async_ops = owner->copies = owner->host_syncs = 0;
    owner->drains.clear();
    owner->bytes_copied = {};
  }
}

void simdev_open(const SimOptions& options) {
  if (SimMachine* machine = open_machine.load()) {
    for (int device = 0; device < machine->device_count(); ++device) {
      const Bytes live = machine->stats(device).live;
      if (live > 0_B) {
        throw ResourceError("simulated devices cannot be opened anew: tensors with " +
                            to_string(live) + " are alive on " + device_name(device));
      }
    }
  }
  simdev_close();
  auto machine = std::make_unique<SimMachine>(options);
  ++openings;
  open_machine = machine.release();
  register_backend();
}

void simdev_close() { const std::unique_ptr<SimMachine> machine(open_machine.exchange(nullptr)); }

SimStats simdev_stats(int device) { return sim_machine().stats(device); }

void simdev_reset_peak(int device) { sim_machine().reset_peak(device); }

void simdev_reset_stats() { sim_machine().reset_stats(); }

std::string simdev_pci_address(int device) {
  return sim_machine().options().devices.at(static_cast<std::size_t>(device)).pci_address;
}

namespace {

/// The open machine's detector, or null when it is off or no device is open.
HazardDetector* open_detector() {
  SimMachine* machine = open_sim_machine();
  return machine != nullptr && machine->options().hazards ? &machine->detector() : nullptr;
}

}  // namespace

std::vector<Hazard> simdev_hazards() {
  const HazardDetector* detector = open_detector();
  return detector == nullptr ? std::vector<Hazard>() : detector->hazards();
}

void simdev_set_label(std::string label) { thread_label = std::move(label); }

void simdev_name_stream(const c10::Stream& stream, const std::string& name) {
  sim_machine().name_stream(stream.device_index(), stream.id(), name);
}

void simdev_name_range(const void* begin, Bytes size, std::string name) {
  HazardDetector* detector = open_detector();
  if (detector == nullptr) return;
  detector->name_range(static_cast<const std::byte*>(begin), size, std::move(name));
}

void simdev_host_access(const void* begin, Bytes size, bool write, const std::string& who) {
  HazardDetector* detector = open_detector();
  if (detector == nullptr) return;
  const AccessedRange range{static_cast<const std::byte*>(begin), size, write};
  detector->access(host_actor(), who, thread_label, {&range, 1}, host_actor());
}

SimActor::SimActor(const std::string& name) {
  if (HazardDetector* detector = open_detector()) actor_ = detector->add_actor(name);
}

void SimActor::access(const void* begin, Bytes size, bool write, const std::string& who) const {
  HazardDetector* detector = open_detector();
  if (detector == nullptr || actor_ < 0) return;
  const AccessedRange range{static_cast<const std::byte*>(begin), size, write};
  detector->access(actor_, who, "", {&range, 1}, host_actor());
}

HazardClock SimActor::clock() const {
  const HazardDetector* detector = open_detector();
  return detector == nullptr || actor_ < 0 ? HazardClock() : detector->clock(actor_, host_actor());
}

void SimActor::join(const HazardClock& seen) const {
  HazardDetector* detector = open_detector();
  if (detector != nullptr && actor_ >= 0) detector->join(actor_, seen);
}

void simdev_host_thread(const std::string& name) {
  if (HazardDetector* detector = open_detector()) {
    this_thread().host_actor = detector->add_actor(name);
  }
}

HazardClock simdev_host_clock() {
  const HazardDetector* detector = open_detector();
  return detector == nullptr ? HazardClock() : detector->clock(host_actor(), host_actor());
}

void simdev_host_join(const HazardClock& seen) {
  if (HazardDetector* detector = open_detector()) detector->join(host_actor(), seen);
}

void simdev_stream_join(const c10::Stream& stream, const HazardClock& seen) {
  HazardDetector* detector = open_detector();
  if (detector == nullptr || stream.device_type() != c10::DeviceType::PrivateUse1) return;
  detector->join(sim_machine().stream(stream.device_index(), stream.id()).actor, seen);
}

std::string simdev_lock_pages(const void* begin, Bytes size) {
  return sim_machine().lock_pages(static_cast<const std::byte*>(begin), size);
}

std::string simdev_unlock_pages(const void* begin) {
  SimMachine* machine = open_sim_machine();  // the devices may have been closed before
  return machine == nullptr ? "" : machine->unlock_pages(static_cast<const std::byte*>(begin));
}

void simdev_fail_copy(long n) { sim_machine().fail_copy(n); }

void simdev_fail_time(long n) { sim_machine().fail_time(n); }

void simdev_spoil_copies(int from, int to) { sim_machine().spoil_copies(from, to); }

std::exception_ptr simdev_take_error(const c10::Stream& stream) {
  return sim_machine().stream(stream.device_index(), stream.id()).queue.take_error();
}

}  // namespace ferry
