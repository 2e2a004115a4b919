#include "store/drive_space.h"

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <utility>

#include "base/check.h"
#include "base/drive_page.h"

namespace ferry {
namespace {

std::vector<double> shares_of(const std::vector<DriveSpace::Part>& parts) {
  std::vector<double> shares;
  for (const DriveSpace::Part& part : parts) shares.push_back(part.share);
  return shares;
}

/// A file per part, all of its bytes taken.
std::vector<SwapFile> reserve(const DriveSpace::Setup& setup, const Stripes& stripes,
                              PhaseListener& listener) {
  std::vector<SwapFile> files;
  ProgressCount count(listener, "reserving " + setup.name, setup.size.count);
  for (std::size_t i = 0; i < setup.parts.size(); ++i) {
    files.emplace_back(setup.parts[i].folder);
    files.back().reserve(stripes.file_size(i), setup.name,
                         [&](Bytes more) { count.advance(more.count); });
  }
  return files;
}

/// Waits for one transfer. Unlike a promise it keeps no error on the thread that told it.
class OneTransfer {
 public:
  DriveSpace::Done done() {
    return [this](std::exception_ptr error) {
      const std::lock_guard lock(mutex_);
      error_ = std::move(error);
      is_done_ = true;
      changed_.notify_all();
    };
  }

  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_done_; });
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  std::mutex mutex_;  // guards everything below
  std::condition_variable changed_;
  std::exception_ptr error_;
  bool is_done_ = false;
};

}  // namespace

DriveCounts DriveTraffic::total() const {
  DriveCounts sum;
  for (const Part& part : parts) {
    sum.read += part.counts.read;
    sum.written += part.counts.written;
    sum.reads += part.counts.reads;
    sum.writes += part.counts.writes;
  }
  return sum;
}

DriveSpace::DriveSpace(Setup setup, PhaseListener& listener)
    : setup_(std::move(setup)), stripes_(shares_of(setup_.parts), setup_.size, setup_.request) {
  if (!setup_.engine) files_ = reserve(setup_, stripes_, listener);
  for (std::size_t part = 0; part < setup_.parts.size(); ++part) {
    queues_.push_back(
        std::make_unique<DriveQueue>(DriveQueue::Setup{.place = setup_.name,
                                                       .folder = setup_.parts[part].folder,
                                                       .open = [this, part] { return open(part); },
                                                       .in_flight = setup_.in_flight,
                                                       .time_limit = setup_.time_limit,
                                                       .held = setup_.parts[part].held}));
  }
  for (const auto& queue : queues_) queue->wait_open();
}

DriveSpace::~DriveSpace() = default;

OpenedDrive DriveSpace::open(std::size_t part) {
  if (!setup_.engine) return open_drive(files_[part], setup_.io, setup_.in_flight);
  return {.engine = setup_.engine(setup_.parts[part].folder, stripes_.file_size(part)),
          .refused = {}};
}

void DriveSpace::read(Bytes offset, std::span<std::byte> to, Done done) {
  transfer(IoKind::read, offset, to, std::move(done));
}

void DriveSpace::write(Bytes offset, std::span<const std::byte> from, Done done) {
  // Engines do not change the memory of a write.
  transfer(IoKind::write, offset, {const_cast<std::byte*>(from.data()), from.size()},
           std::move(done));
}

void DriveSpace::read_now(Bytes offset, std::span<std::byte> to) {
  OneTransfer one;
  read(offset, to, one.done());
  one.wait();
}

void DriveSpace::write_now(Bytes offset, std::span<const std::byte> from) {
  OneTransfer one;
  write(offset, from, one.done());
  one.wait();
}

void DriveSpace::transfer(IoKind kind, Bytes offset, std::span<std::byte> memory, Done done) {
  FERRY_CHECK(done, "a transfer tells somebody when it is done");
  FERRY_CHECK(reinterpret_cast<std::uintptr_t>(memory.data()) %
                      static_cast<std::uintptr_t>(kDrivePage.count) ==
                  0,
              "memory of a transfer begins at a multiple of 4096 B");
  std::vector<std::vector<DriveQueue::Piece>> pieces(queues_.size());
  std::int64_t count = 0;
  const auto add = [&](std::size_t part, Bytes at, std::span<std::byte> piece) {
    pieces[part].push_back({.kind = kind, .offset = at, .memory = piece, .transfer = nullptr});
    ++count;
  };
  const Bytes length{static_cast<std::int64_t>(memory.size())};
  for (Stripes::Segment segment : stripes_.segments(offset, length)) {
    while (segment.length > 0_B) {
      const Bytes size = std::min(segment.length, setup_.request);
      add(segment.part, segment.offset, memory.first(static_cast<std::size_t>(size.count)));
      memory = memory.subspan(static_cast<std::size_t>(size.count));
      segment.offset += size;
      segment.length -= size;
    }
  }
  if (count == 0) add(0, 0_B, {});  // nothing to move, told from a thread of ours all the same
  const auto whole = std::make_shared<DriveTransfer>(count, std::move(done));
  for (std::size_t part = 0; part < queues_.size(); ++part) {
    if (pieces[part].empty()) continue;
    for (DriveQueue::Piece& piece : pieces[part]) piece.transfer = whole;
    queues_[part]->post(std::move(pieces[part]));
  }
}

void DriveSpace::use_memory(std::span<std::byte> memory) {
  for (const auto& queue : queues_) {
    const std::string refused = queue->use_memory(memory);
    if (refused.empty()) continue;
    const std::lock_guard lock(mutex_);
    not_registered_ = refused;
  }
}

std::string DriveSpace::io() const {
  const bool equal = std::ranges::all_of(
      queues_, [&](const auto& queue) { return queue->way() == queues_.front()->way(); });
  std::string text;
  for (const auto& queue : queues_) {
    if (!text.empty() && equal) break;
    text +=
        (text.empty() ? "" : "; ") + (equal ? "" : queue->folder().string() + ": ") + queue->way();
  }
  const std::lock_guard lock(mutex_);
  return not_registered_.empty() ? text : text + "; memory is not registered: " + not_registered_;
}

bool DriveSpace::direct() const {
  return !files_.empty() && std::ranges::all_of(files_, &SwapFile::direct);
}

DriveTraffic DriveSpace::traffic() const {
  DriveTraffic traffic;
  for (const auto& queue : queues_) {
    traffic.parts.push_back({.folder = queue->folder(), .counts = queue->counts()});
  }
  return traffic;
}

}  // namespace ferry
