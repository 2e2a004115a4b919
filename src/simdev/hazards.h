// Finds missing waits between streams, whatever the timing of the run.
//
// Every actor (the host is actor 0, each stream another) has a vector clock. An access is ordered
// after an earlier one when the actor's clock has seen it, through events, waits or enqueueing.
// Accesses are kept by byte range, so views of one slab are told apart. Knows nothing of torch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/units.h"

namespace ferry {

/// One side of a hazard: who touched the bytes.
struct HazardParty {
  std::string op;      // "aten::mm", "copy host to sim:0", "free", or what host code called itself
  std::string label;   // the task's label when it was enqueued, e.g. "F.3.0"; may be empty
  std::string stream;  // "sim:0/load", or "host"
};

/// Two accesses to the same bytes, at least one of them a write, that nothing orders.
struct Hazard {
  enum class Kind { kReadAfterWrite, kWriteAfterWrite, kWriteAfterRead };

  Kind kind = Kind::kReadAfterWrite;
  HazardParty later;    // the access that should have waited
  HazardParty earlier;  // the access it should have waited for
  std::string range;    // the name given to the bytes, or their address and length
};

/// "read after write on W.3@gpu0: aten::mm (F.3.0, sim:0/compute) does not wait for ...".
std::string to_string(const Hazard& hazard);

/// How much of every actor's work has been seen: element i counts actor i's accesses. Actors
/// beyond the end have not been seen at all.
using HazardClock = std::vector<std::uint64_t>;

/// Bytes touched by one access.
struct AccessedRange {
  const std::byte* begin = nullptr;
  Bytes size;
  bool write = false;
};

/// All calls are safe from any thread. Host threads are one actor together, kHost, but for those
/// that were added as actors of their own.
class HazardDetector {
 public:
  static constexpr int kHost = 0;
  /// Reports beyond this many are counted by nobody: the first ones say what is wrong.
  static constexpr std::size_t kMostReports = 1000;

  HazardDetector();

  /// Adds a stream, or a host thread, and returns its actor number. There is no limit on their
  /// number.
  int add_actor(std::string name);
  void rename_actor(int actor, std::string name);

  /// Notes that `actor` touches `ranges`, in program order of that actor. A stream's access is
  /// also ordered after all that `host` has seen, because that host thread enqueues it.
  void access(int actor, const std::string& op, const std::string& label,
              std::span<const AccessedRange> ranges, int host = kHost);

  /// What `actor` has done and seen so far: the meaning of an event that `host` records on it now.
  HazardClock clock(int actor, int host = kHost) const;

  /// Orders everything `actor` does from now on after what `seen` has seen.
  void join(int actor, const HazardClock& seen);

  /// Drops what is known of these bytes, because they went back to the operating system.
  void forget(const std::byte* begin, Bytes size);

  /// Names bytes for reports; takes the place of earlier names of overlapping bytes.
  void name_range(const std::byte* begin, Bytes size, std::string name);

  std::vector<Hazard> hazards() const;

 private:
  struct Access {
    int actor;
    std::uint64_t tick;  // of that actor's clock
    HazardParty party;
  };
  using AccessPointer = std::shared_ptr<const Access>;
  struct Segment {
    std::uintptr_t end = 0;
    AccessPointer write;               // the last one; null when never written
    std::vector<AccessPointer> reads;  // since that write, the last one of each actor
  };
  using Segments = std::map<std::uintptr_t, Segment>;  // begin -> segment, never overlapping

  void split_at(std::uintptr_t address);
  void touch(const AccessedRange& range, const AccessPointer& access);
  void check_against(const AccessPointer& access, bool write, const Segment& segment,
                     std::uintptr_t begin);
  void report(Hazard::Kind kind, const Access& later, const AccessPointer& earlier,
              std::uintptr_t begin, std::uintptr_t end);
  std::string range_name(std::uintptr_t begin, std::uintptr_t end) const;

  mutable std::mutex mutex_;  // guards everything below
  std::vector<std::string> names_;
  std::vector<HazardClock> clocks_;
  Segments segments_;
  std::map<std::uintptr_t, std::pair<std::uintptr_t, std::string>> range_names_;
  std::vector<Hazard> hazards_;
  std::vector<AccessPointer> blamed_;  // counterparts already reported for the access in progress
};

}  // namespace ferry
