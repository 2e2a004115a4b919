// A few threads that stay, so that spreading a loop over them costs microseconds.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

namespace ferry {

/// Runs loops on a fixed number of threads, the calling one included.
class WorkerTeam {
 public:
  /// Starts `threads` - 1 threads. Requires: threads > 0.
  /// Throws ResourceError when the machine refuses a thread.
  explicit WorkerTeam(int threads);

  /// Calls work(i) once for every i in [0, count), in no particular order and each on any of the
  /// team's threads, and returns when all are done. What the workers wrote is visible to the
  /// caller. Throws the first exception of `work`; then no further i is begun. Threads: from any;
  /// calls take turns. `work` must not call the team again.
  void for_each(std::size_t count, const std::function<void(std::size_t)>& work);

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

 private:
  void serve(const std::stop_token& stop);
  void take_part();

  std::mutex turn_;  // held by the caller whose loop runs

  std::mutex mutex_;  // guards everything up to next_
  std::condition_variable_any changed_;
  const std::function<void(std::size_t)>* work_ = nullptr;
  std::size_t count_ = 0;
  std::size_t round_ = 0;  // one more for every loop
  std::size_t busy_ = 0;   // workers that have not finished the current round
  std::exception_ptr failure_;

  std::atomic<std::size_t> next_ = 0;  // the first i that nobody has taken
  std::vector<std::jthread> workers_;  // last, so that they end before what they use
};

}  // namespace ferry
