// How requests reach the file of one drive. DriveQueue (store/drive_queue.h) checks what comes back
// and goes on where a request stopped; an engine only starts requests and tells what came of them.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/units.h"

namespace ferry {

enum class IoKind { read, write };

struct IoRequest {
  IoKind kind = IoKind::read;
  Bytes offset;                 // in the drive's file
  std::span<std::byte> memory;  // is only read by a write; stays until the completion
  std::uint64_t token = 0;      // comes back with the completion
};

struct IoCompletion {
  std::uint64_t token = 0;
  std::int64_t result = 0;  // bytes moved, perhaps fewer than asked for; or -errno
};

/// One drive's file and a way to it. Threads: made, used and destroyed by one, but for wake().
class IoEngine {
 public:
  /// Does not wait for requests that the drive does not answer. Their memory may still be written
  /// to as long as the process lives.
  virtual ~IoEngine() = default;

  /// Starts a request, perhaps only with the next wait().
  virtual void start(const IoRequest& request) = 0;

  /// Waits for a completion, for wake() or for `limit` to pass, and returns what has completed.
  /// Throws ResourceError when nothing can be learnt about requests any more.
  virtual std::vector<IoCompletion> wait(std::chrono::milliseconds limit) = 0;

  /// Ends a wait() that is going on, or the next one. From any thread.
  virtual void wake() = 0;

  /// Memory that requests will use again and again. Returns why nothing came of it, or nothing.
  virtual std::string use_memory(std::span<std::byte> memory) = 0;

  /// "io_uring, direct"
  virtual std::string name() const = 0;
};

struct OpenedDrive {
  std::unique_ptr<IoEngine> engine;
  std::string refused;  // why a better way was not taken; empty when the best was
};

/// Makes the engine of a file of `size` bytes in `folder`; called on the thread that will use it.
/// Throws ResourceError.
using EngineFactory =
    std::function<std::unique_ptr<IoEngine>(const std::filesystem::path& folder, Bytes size)>;

}  // namespace ferry
