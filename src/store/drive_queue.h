// One drive: the thread that owns its engine, what waits for it, and what is in flight.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/units.h"
#include "store/io_engine.h"
#include "store/pace.h"

namespace ferry {

/// What a drive has moved, counted from completions.
struct DriveCounts {
  Bytes read;
  Bytes written;
  std::int64_t reads = 0;  // requests
  std::int64_t writes = 0;
};

/// A transfer in pieces, on one drive or several. Its pieces own it together: any of them may be
/// the last one. Safe to use from any thread.
class DriveTransfer {
 public:
  using Done = std::function<void(std::exception_ptr)>;
  /// Requires: pieces > 0.
  DriveTransfer(std::int64_t pieces, Done done) : left_(pieces), done_(std::move(done)) {}

  /// A piece has been moved (null) or will not be; with the last one, tells `done` the first error.
  void settle(std::exception_ptr error);
  /// Whether the pieces that have not begun may be dropped.
  bool failed() const;

 private:
  mutable std::mutex mutex_;  // guards everything below
  std::int64_t left_;
  std::exception_ptr error_;
  Done done_;
};

/// Threads: as DriveSpace (store/drive_space.h).
class DriveQueue {
 public:
  struct Piece {
    IoKind kind = IoKind::read;
    Bytes offset;                 // in the drive's file
    std::span<std::byte> memory;  // a multiple of kDrivePage; may be empty
    std::shared_ptr<DriveTransfer> transfer;
  };
  struct Setup {
    std::string place;  // for messages
    std::filesystem::path folder;
    std::function<OpenedDrive()> open;  // called once, on the queue's thread
    int in_flight = 16;
    std::chrono::milliseconds time_limit{60'000};
    std::optional<HeldRates> held = {};  // none: as fast as it can
  };

  /// Starts the thread, which opens the engine. Requires: in_flight > 0, time_limit > 0.
  explicit DriveQueue(Setup setup);
  /// Waits for requests that the drive has begun, unless it stopped answering; the others fail.
  ~DriveQueue();
  DriveQueue(const DriveQueue&) = delete;
  DriveQueue& operator=(const DriveQueue&) = delete;

  /// Waits until the engine is open; throws why it is not. Before anything else is called.
  void wait_open();

  /// A transfer's pieces here, at least one. Transfers share the drive: each has a piece begun in
  /// turn, as the simulator divides a drive among copies (base/fair_share.h). Where the drive is
  /// held to rates a piece begins when one of these rates would be done with it.
  void post(std::vector<Piece> pieces);
  /// Returns when the engine knows the memory, or why nothing came of that.
  std::string use_memory(std::span<std::byte> memory);

  const std::filesystem::path& folder() const { return setup_.folder; }
  /// The engine, and why it is not a better one: "threads, direct (REASON)". After wait_open().
  const std::string& way() const { return way_; }
  DriveCounts counts() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Flight {
    Piece piece;
    std::size_t moved = 0;
    Clock::duration since{};  // by age_
  };
  using Pieces = std::deque<Piece>;
  struct Registration {
    std::span<std::byte> memory;
    std::promise<std::string> answer;
  };

  void run();
  bool open();
  void serve();
  void refuse(const std::exception_ptr& failure);
  bool take_new();
  std::optional<Piece> next_piece();
  Clock::time_point begins(const Piece& piece) const;
  bool idle() const;
  std::chrono::milliseconds longest_wait() const;
  void start_waiting();
  void start(std::size_t token);
  void complete(const IoCompletion& completion);
  void land(std::size_t token, std::exception_ptr error);
  void look_for_late();
  std::exception_ptr error_of(const Flight& flight, const std::string& reason) const;

  const Setup setup_;
  std::promise<void> opened_;
  // Made by the thread before wait_open() returns; others call wake() under mutex_ until ended_.
  std::string way_;
  std::unique_ptr<IoEngine> engine_;
  std::atomic<std::int64_t> read_ = 0, written_ = 0, reads_ = 0, writes_ = 0;

  mutable std::mutex mutex_;  // guards the inbox: everything up to the next blank line
  std::condition_variable inbox_filled_;
  std::vector<Pieces> inbox_;  // by transfer
  std::vector<Registration> registrations_;
  bool closing_ = false;
  std::exception_ptr ended_;  // why the thread takes no more pieces

  // The thread's own.
  std::optional<Pace> pace_;
  // Transfers in turn, each with a piece at least, by the pace's way; all in the first without one.
  std::array<std::deque<Pieces>, Pace::kWays> waiting_;
  std::vector<std::optional<Flight>> flights_;  // by token
  std::vector<std::size_t> free_;               // tokens
  Clock::time_point looked_;
  Clock::duration age_{};  // time to answer: without that in which this process was stopped

  std::thread thread_;
};

}  // namespace ferry
