#include "store/rates.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <latch>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "base/free_space.h"
#include "base/median.h"
#include "store/drive_space.h"
#include "store/mapping.h"

namespace ferry {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kPasses = 5;
constexpr std::size_t kDrivePasses = 3;
constexpr double kDriveTime = 3;            // seconds after which no further pass begins
constexpr double kComputing = 0.2;          // seconds beside the drive, and as long alone
constexpr std::size_t kSlowdowns = 5;       // of which the median counts
constexpr Bytes kBlock = 8_MiB;             // large enough for the full rate of every drive
constexpr std::size_t kBlocksInFlight = 4;  // a drive needs several to be busy all the time
constexpr Bytes kSpaceKept = 64_MiB;        // left to others on a drive that is nearly full

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Runs work(thread) on `threads` threads, none before all are there, and returns when all are
/// done; rethrows the first error. Throws ResourceError when the machine refuses a thread.
void on_threads(int threads, const std::function<void(int)>& work) {
  std::mutex mutex;
  std::exception_ptr failure;
  bool complete = false;  // written before the latch opens
  std::latch open(1);
  std::vector<std::jthread> team;
  try {
    for (int i = 0; i < threads; ++i) {
      team.emplace_back([&, i] {
        open.wait();
        if (!complete) return;
        try {
          work(i);
        } catch (...) {
          const std::lock_guard lock(mutex);
          if (!failure) failure = std::current_exception();
        }
      });
    }
  } catch (const std::system_error& error) {
    open.count_down();
    throw ResourceError("cannot start " + std::to_string(threads) + " threads: " + error.what());
  }
  complete = true;
  open.count_down();
  team.clear();  // joins
  if (failure) std::rethrow_exception(failure);
}

/// A block's contents: no zeros, which some drives do not store, and its number in every page.
void stamp(std::span<std::byte> block, std::int64_t number) {
  for (std::size_t at = 0; at < block.size(); at += 4096) {
    std::memcpy(block.data() + at, &number, sizeof(number));
  }
}

void fill(std::span<std::byte> block, std::uint64_t seed) {
  for (std::size_t at = 0; at + sizeof(seed) <= block.size(); at += sizeof(seed)) {
    seed = seed * 6364136223846793005U + 1442695040888963407U;  // Knuth's MMIX generator
    std::memcpy(block.data() + at, &seed, sizeof(seed));
  }
}

/// Moves blocks of a space, a few at a time, through memory for kBlocksInFlight that outlives the
/// space: after an error some may be under way.
class Blocks {
 public:
  Blocks(DriveSpace& space, std::span<std::byte> memory) : space_(space), memory_(memory) {
    fill(memory_, 1);
    space_.use_memory(memory_);
  }

  /// Each in seconds.
  double write_all() { return move_all(IoKind::write); }
  double read_all() { return move_all(IoKind::read); }
  /// Reads the first half of the blocks and writes the others at the same time.
  double exchange() {
    const Bytes half{space_.size().count / 2};
    std::vector<Move> moves;
    for (Bytes at; at < half; at += kBlock) {
      moves.push_back({IoKind::read, at});
      moves.push_back({IoKind::write, half + at});
    }
    return run(moves);
  }

 private:
  struct Move {
    IoKind kind;
    Bytes at;
  };

  double move_all(IoKind kind) {
    std::vector<Move> moves;
    for (Bytes at; at < space_.size(); at += kBlock) moves.push_back({kind, at});
    return run(moves);
  }

  double run(const std::vector<Move>& moves) {
    const auto begin = Clock::now();
    std::deque<std::future<void>> moving;  // the last of those that began
    std::size_t done = 0;
    const auto finish_first = [&] {
      moving.front().get();
      moving.pop_front();
      const std::size_t turn = done++;
      if (moves[turn].kind == IoKind::read) check(buffer_of(turn), moves[turn].at);
    };
    for (std::size_t turn = 0; turn < moves.size(); ++turn) {
      if (moving.size() == kBlocksInFlight) finish_first();
      const auto moved = std::make_shared<std::promise<void>>();
      moving.push_back(moved->get_future());
      start(moves[turn], buffer_of(turn), [moved](std::exception_ptr error) {
        error ? moved->set_exception(std::move(error)) : moved->set_value();
      });
    }
    while (!moving.empty()) finish_first();
    return seconds_since(begin);
  }

  std::span<std::byte> buffer_of(std::size_t turn) const {
    const auto length = static_cast<std::size_t>(kBlock.count);
    return memory_.subspan(turn % kBlocksInFlight * length, length);
  }

  void start(const Move& move, std::span<std::byte> buffer, DriveSpace::Done done) {
    if (move.kind == IoKind::read) return space_.read(move.at, buffer, std::move(done));
    stamp(buffer, move.at.count);
    space_.write(move.at, buffer, std::move(done));
  }

  void check(std::span<const std::byte> buffer, Bytes at) const {
    std::int64_t found = -1;
    std::memcpy(&found, buffer.data(), sizeof(found));
    if (found != at.count) {
      throw ResourceError(space_.traffic().parts.front().folder.string() +
                          ": the drive returned other bytes than were written");
    }
  }

  DriveSpace& space_;
  const std::span<std::byte> memory_;
};

/// Threads that compute as one kernel after the other does: each its part, all of about 50
/// microseconds, and none goes on before all are done. So what holds up one holds up all.
class ComputingThreads {
 public:
  explicit ComputingThreads(int threads) : threads_(threads) {
    try {
      for (int i = 0; i < threads; ++i) {
        team_.emplace_back([this](const std::stop_token& stop) { compute(stop); });
      }
    } catch (const std::system_error& error) {
      throw ResourceError("cannot start " + std::to_string(threads) + " threads: " + error.what());
    }
  }

  /// Kernels since the beginning.
  double kernels() const { return static_cast<double>(arrived_ / threads_); }

 private:
  void compute(const std::stop_token& stop) {
    constexpr int kPassesOfPart = 64;
    std::array<float, 4096> values;
    values.fill(1);
    while (!stop.stop_requested()) {  // a single thread waits for no other
      for (int pass = 0; pass < kPassesOfPart; ++pass) {
        for (float& value : values) value = value * 0.999F + 0.001F;
        std::atomic_signal_fence(std::memory_order_seq_cst);  // no pass is left out
      }
      const std::int64_t round = arrived_++ / threads_;
      while (arrived_ / threads_ == round) {
        if (stop.stop_requested()) return;
      }
    }
  }

  const int threads_;
  std::atomic<std::int64_t> arrived_ = 0;
  std::vector<std::jthread> team_;
};

/// By which share computing threads slow down while the drive is busy, in one of several turns.
double slowdown(Blocks& blocks, const ComputingThreads& threads) {
  const auto rate_during = [&](const auto& work) {
    const double before = threads.kernels();
    const auto begin = Clock::now();
    work();
    return (threads.kernels() - before) / seconds_since(begin);
  };
  const double beside = rate_during([&] {
    const auto begin = Clock::now();
    while (seconds_since(begin) < kComputing) blocks.exchange();
  });
  const double alone =
      rate_during([] { std::this_thread::sleep_for(std::chrono::duration<double>(kComputing)); });
  return std::max(0.0, 1 - beside / alone);
}

}  // namespace

double dram_bandwidth(Bytes memory, int threads) {
  FERRY_CHECK(threads > 0 && memory > 0_B, "a stream needs threads and memory");
  const std::size_t count =
      std::max<std::size_t>(static_cast<std::size_t>(memory.count) / (2 * sizeof(double)), 1);
  Mapping mapping({static_cast<std::int64_t>(2 * count * sizeof(double))});
  mapping.touch(threads);
  auto* const a = reinterpret_cast<double*>(mapping.bytes().data());
  const double* const b = a + count;
  std::vector<double> seconds(kPasses + 1);
  std::barrier<> line(threads);
  on_threads(threads, [&](int thread) {
    const auto part = [&](int index) {
      return count * static_cast<std::size_t>(index) / static_cast<std::size_t>(threads);
    };
    for (double& pass : seconds) {  // the first one warms up
      line.arrive_and_wait();
      const auto start = Clock::now();
      for (std::size_t i = part(thread); i < part(thread + 1); ++i) a[i] += 0.5 * b[i];
      line.arrive_and_wait();
      if (thread == 0) pass = seconds_since(start);
    }
  });
  std::sort(seconds.begin() + 1, seconds.end());
  return 3.0 * sizeof(double) * static_cast<double>(count) / seconds[1 + kPasses / 2];
}

DriveRates rates_at_once(Bytes bytes, double reading, double writing, double both) {
  const double slower = std::max(reading, writing) / 2, apart = (reading + writing) / 2;
  const bool duplex = both * both < slower * apart;
  const double moved =
      static_cast<double>(bytes.count) * std::min(1.0, (duplex ? slower : apart) / both);
  return {.read = moved / reading, .write = moved / writing, .cores = 0, .duplex = duplex};
}

std::optional<DriveRates> measure_drive(const fs::path& folder, Bytes size, int threads) {
  FERRY_CHECK(size > 0_B && threads > 0, "a test file needs a size, computing needs threads");
  const Bytes length = round_up(size, 2 * kBlock);
  if (const Bytes have = free_space(folder); length + kSpaceKept > have) {
    throw ResourceError(
        folder.string() + ": a test file of " + to_string(length) + " needs " +
        to_string(length + kSpaceKept) + ", the drive has " + to_string(have) +
        "; make room, take a smaller one (ferry doctor --drive-size), or give the drive's "
        "`read` and `write`");
  }
  const Mapping memory(kBlock * kBlocksInFlight);
  DriveSpace space({.name = "a test file", .parts = {{folder, 1}}, .size = length});
  if (!space.direct()) return std::nullopt;
  Blocks blocks(space, memory.bytes());
  // A run writes the same space again and again: what a first write costs on top is paid once.
  blocks.write_all();
  std::vector<double> writing, reading, exchanging;  // seconds, in turns: its speed moves
  const auto begin = Clock::now();
  while (writing.empty() || (writing.size() < kDrivePasses && seconds_since(begin) < kDriveTime)) {
    writing.push_back(blocks.write_all());
    reading.push_back(blocks.read_all());
    exchanging.push_back(blocks.exchange());
  }
  DriveRates rates = rates_at_once(length, median(reading), median(writing), median(exchanging));
  std::vector<double> slowdowns;
  const ComputingThreads computing(threads);
  for (std::size_t i = 0; i < kSlowdowns; ++i) slowdowns.push_back(slowdown(blocks, computing));
  rates.cores = threads * median(slowdowns);
  return rates;
}

}  // namespace ferry
