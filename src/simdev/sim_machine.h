// The state behind sim:k while it is open: devices, their streams and memory, links, detector.
// Internal to simdev/.
#pragma once

#include <c10/core/Stream.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "simdev/hazards.h"
#include "simdev/link.h"
#include "simdev/memory.h"
#include "simdev/queue.h"
#include "simdev/simdev.h"

namespace ferry {

/// A stream of a device. Lives as long as the SimMachine.
struct SimStream {
  SimStream(int device_index, c10::StreamId stream_id, int hazard_actor, std::size_t most_waiting,
            TaskQueue::Task on_start, TaskQueue::Task on_rest)
      : device(device_index),
        id(stream_id),
        actor(hazard_actor),
        queue(std::move(on_start), most_waiting, std::move(on_rest)) {}

  const int device;
  const c10::StreamId id;
  const int actor;  // in the HazardDetector
  TaskQueue queue;
};

/// What a c10::Event of a sim device owns.
struct SimEvent {
  EventPointer event;
  int device = 0;  // where it was recorded last
};

class SimMachine {
 public:
  using Ranges = std::vector<AccessedRange>;

  explicit SimMachine(const SimOptions& options);
  ~SimMachine();

  const SimOptions& options() const { return options_; }
  int device_count() const { return static_cast<int>(devices_.size()); }
  const std::shared_ptr<DeviceMemory>& memory(int device) { return at(device).memory; }
  HazardDetector& detector() { return detector_; }

  SimStream& stream(int device, c10::StreamId id);
  SimStream& new_stream(int device);
  std::vector<SimStream*> streams(int device);
  void name_stream(int device, c10::StreamId id, const std::string& name);
  std::string stream_name(const SimStream& stream);

  /// Enqueues `task`, which touches `ranges`, under the calling thread's label.
  void enqueue(SimStream& stream, std::string op, const Ranges& ranges, TaskQueue::Task task);

  void record(SimEvent& event, SimStream& stream);
  void block(const SimEvent& event, SimStream& stream);
  /// Host waits. They throw what failed before.
  void wait_stream(SimStream& stream);
  void wait_device(int device);
  void wait_event(const SimEvent& event);
  bool query_event(const SimEvent& event);
  bool query_stream(SimStream& stream);

  /// Counts an operator that is about to wait for its stream; throws in strict mode.
  void count_drain(int device, const std::string& op, const std::string& why);
  void count_async(int device) { at(device).async_ops.fetch_add(1, std::memory_order_relaxed); }

  /// Copies bytes over the links between two devices (-1 = the host) in the calling thread.
  struct Copy {
    int from = -1;
    int to = -1;
    Bytes size;
    long number = 0;  // from count_copy()
  };
  long count_copy(int from, int to, Bytes size);
  void carry(const Copy& copy, const std::function<void()>& move);
  /// Whether its bytes have to arrive wrong; see simdev_spoil_copies().
  bool spoils(const Copy& copy);

  /// Page-locked host memory; see SimOptions::lockable.
  std::string lock_pages(const std::byte* begin, Bytes size);
  std::string unlock_pages(const std::byte* begin);
  bool is_pageable(const AccessedRange& range);

  /// Device memory, handed out and taken back in the order of a stream.
  MemoryBlock allocate(SimStream& stream, Bytes size);
  void give_back(int device, const MemoryBlock& block, const std::vector<c10::StreamId>& users);
  void give_back_unused(int device);

  SimStats stats(int device);
  void reset_peak(int device) { at(device).memory->reset_peak(); }
  void reset_stats();
  void fail_copy(long n) { failing_copy_ = copies_started_ + n; }
  void fail_time(long n) { failing_time_ = times_asked_ + n; }
  /// Counts the times that events are asked for; false: this one is to fail.
  bool tells_time() { return ++times_asked_ != failing_time_; }
  void spoil_copies(int from, int to);

 private:
  struct Device {
    SimDeviceSpec spec;
    std::shared_ptr<DeviceMemory> memory;  // shared with blocks that outlive the machine
    Route up, down, peer_out, peer_in;
    std::mutex mutex;  // guards the four below
    std::vector<std::unique_ptr<SimStream>> streams;
    std::vector<std::string> stream_names;
    std::map<std::string, long> drains;
    Bytes bytes_copied;
    std::atomic<long> async_ops = 0, copies = 0, host_syncs = 0;
  };
  Device& at(int device);
  Route route(int from, int to);
  void release(int device, const std::vector<MemoryBlock>& blocks);
  void seen_by_host(const SimStream& stream);

  const SimOptions options_;
  HazardDetector detector_;
  SharedLinks links_;
  const c10::StreamId first_stream_id_;       // ids are never used twice in a process
  std::mutex locked_mutex_;                   // guards locked_
  std::map<const std::byte*, Bytes> locked_;  // ranges of host memory, by their begin
  std::atomic<long> copies_started_ = 0;
  std::atomic<long> failing_copy_ = 0;  // its number; 0: none
  std::atomic<long> times_asked_ = 0;
  std::atomic<long> failing_time_ = 0;            // its number; 0: none
  std::mutex spoiled_mutex_;                      // guards spoiled_
  std::set<std::pair<int, int>> spoiled_;         // from and to
  std::vector<std::unique_ptr<Device>> devices_;  // last: its streams use the members above
};

/// The open machine. Throws c10::Error when none is open.
SimMachine& sim_machine();
/// The same, or null.
SimMachine* open_sim_machine();

/// The calling thread's current device and streams. They start anew with every opening.
int current_device();
void set_current_device(int device);
c10::StreamId current_stream_id(int device);
void set_current_stream_id(int device, c10::StreamId id);
SimStream& current_stream(int device);

/// The calling thread among the detector's actors: HazardDetector::kHost, unless it has called
/// simdev_host_thread().
int host_actor();

}  // namespace ferry
