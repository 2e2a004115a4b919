// The bytes of a plan's drive place: one address space, striped over a file in each drive's folder.
//
// The files have no name and all their bytes are reserved at the start: what the drives cannot hold
// is refused before the first step, and nothing is left of a run that ended, however it did. Every
// completion is checked; a transfer ends with all its bytes moved or with an error.
#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/units.h"
#include "store/drive_queue.h"
#include "store/io_engine.h"
#include "store/open_drive.h"
#include "store/pace.h"
#include "store/stripes.h"
#include "store/swap_file.h"

namespace ferry {

/// What has been moved since the beginning, counted from completions.
struct DriveTraffic {
  struct Part {
    std::filesystem::path folder;
    DriveCounts counts;
  };
  std::vector<Part> parts;

  DriveCounts total() const;
};

/// Threads: every member function from any thread, also from `done`; construction and destruction
/// from one.
class DriveSpace {
 public:
  struct Part {
    std::filesystem::path folder;
    double share = 1;  // of every row of stripes, in proportion to the drives' rates
    std::optional<HeldRates> held = {};  // none: as fast as it can
  };
  struct Setup {
    std::string name;  // the place's, for messages
    std::vector<Part> parts;
    Bytes size;
    IoChoice io = IoChoice::best;
    Bytes request = 1_MiB;  // the largest; a row of stripes has as much per part on average
    int in_flight = 16;     // requests per drive
    std::chrono::milliseconds time_limit{60'000};  // for a drive to answer a request
    EngineFactory engine = {};  // for tests (store/faulty_drive.h): instead of files and `io`
  };

  /// Makes the files, reserves all bytes and tries each drive by writing and reading back; contents
  /// are undefined until they are written. The listener hears of bytes reserved. Requires: as
  /// Stripes (store/stripes.h). Throws UserError when a folder is not there, ResourceError when a
  /// drive refuses or has too little space (folder, need and have).
  explicit DriveSpace(Setup setup, PhaseListener& listener = nobody());

  /// Waits for requests that the drives have begun, unless they have stopped answering; transfers
  /// that wait behind them fail.
  ~DriveSpace();
  DriveSpace(const DriveSpace&) = delete;
  DriveSpace& operator=(const DriveSpace&) = delete;

  /// Called once per transfer: null when all bytes are there, else a ResourceError that names
  /// place, folder, offset and reason. Comes from one of the space's threads, holds up that drive,
  /// and must not throw. It may start transfers.
  using Done = std::function<void(std::exception_ptr)>;

  /// Starts a transfer and returns. Requires: offset, length and address are multiples of
  /// kDrivePage; the bytes lie within the space; the memory stays until `done`. Transfers of
  /// overlapping bytes are not ordered: start the later one when the earlier one is done. A drive
  /// that stopped answering may still reach for the memory later.
  void read(Bytes offset, std::span<std::byte> to, Done done);
  void write(Bytes offset, std::span<const std::byte> from, Done done);

  /// The same and waits. Throws what `done` would have been given. Not from `done`.
  void read_now(Bytes offset, std::span<std::byte> to);
  void write_now(Bytes offset, std::span<const std::byte> from);

  /// Memory that transfers will use again and again (the host slab): registered with the kernel
  /// where it can be; elsewhere transfers work all the same. It must outlive the space.
  void use_memory(std::span<std::byte> memory);

  Bytes size() const { return stripes_.size(); }
  /// How the drives are reached and why not better: "io_uring, direct", "threads, direct
  /// (io_uring_setup: Operation not permitted)".
  std::string io() const;
  /// Whether all drives are reached past the page cache.
  bool direct() const;
  DriveTraffic traffic() const;

 private:
  OpenedDrive open(std::size_t part);
  void transfer(IoKind kind, Bytes offset, std::span<std::byte> memory, Done done);

  const Setup setup_;
  const Stripes stripes_;
  std::vector<SwapFile> files_;  // one per part, or none with Setup::engine

  mutable std::mutex mutex_;    // guards the next line
  std::string not_registered_;  // why memory that will be used again is not known to the kernel

  std::vector<std::unique_ptr<DriveQueue>> queues_;  // one per part; last: their threads end first
};

}  // namespace ferry
