// What a process holds of this box's memory for itself, and the most that it held at once.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "base/units.h"

namespace ferry {

/// Bytes in DRAM that no file backs (RssAnon and RssShmem of /proc/PID/status): heap, stacks,
/// slabs, page-locked or not. Mapped checkpoints, token files and programs do not count, nor does
/// the page cache: the kernel takes those back when memory is short. 0 for a process that has
/// ended. Throws ResourceError where /proc does not say.
Bytes own_memory(pid_t process);

/// The same of a process and those that its first thread started. A page that they share counts
/// once, where the kernel tells (Pss_Anon of /proc/PID/smaps_rollup); else for each of them. It
/// walks all their pages: tens of milliseconds per GiB.
Bytes own_memory_with_children(pid_t process);

/// Looks at a number of bytes again and again, on a thread of its own, and keeps the largest.
class PeakWatch {
 public:
  static constexpr std::chrono::milliseconds kInterval{5};

  /// `now` says how many bytes there are; it is called from that thread and from peak()'s, one call
  /// at a time, and never after the destructor.
  explicit PeakWatch(std::function<Bytes()> now, std::chrono::milliseconds interval = kInterval);
  ~PeakWatch() = default;  // ends the thread
  PeakWatch(const PeakWatch&) = delete;
  PeakWatch& operator=(const PeakWatch&) = delete;

  /// The most that was seen, this moment included. From any thread. Throws what `now` threw.
  Bytes peak();

 private:
  void look();  // Requires: mutex_ is held.
  void watch(const std::stop_token& stop);

  const std::function<Bytes()> now_;
  const std::chrono::milliseconds interval_;
  std::mutex mutex_;  // guards everything below, and calls of now_
  std::condition_variable_any stopped_;
  Bytes peak_;
  std::exception_ptr failure_;
  std::jthread thread_;  // last, so that it ends before what it uses
};

}  // namespace ferry
