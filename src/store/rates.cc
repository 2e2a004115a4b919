#include "store/rates.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <latch>
#include <mutex>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "store/mapping.h"
#include "store/swap_file.h"

namespace ferry {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kPasses = 5;
constexpr Bytes kBlock = 8_MiB;       // large enough for the full rate of every drive
constexpr int kBlocksInFlight = 4;    // a drive needs several to be busy all the time
constexpr Bytes kSpaceKept = 64_MiB;  // left to others on a drive that is nearly full

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// A file without a name, open for direct I/O; closing it frees its space.
class NamelessFile {
 public:
  explicit NamelessFile(const fs::path& folder) {
    std::string name = (folder / ".ferry-doctor-XXXXXX").string();
    descriptor_ = mkostemp(name.data(), O_DIRECT | O_CLOEXEC);
    const int error = errno;
    // Where O_DIRECT is refused, the file may have been made all the same.
    if (descriptor_ >= 0 || error == EINVAL) unlink(name.c_str());
    if (descriptor_ < 0 && error != EINVAL) {
      throw system_error("cannot make a file in " + folder.string(), error);
    }
  }
  ~NamelessFile() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  NamelessFile(const NamelessFile&) = delete;
  NamelessFile& operator=(const NamelessFile&) = delete;

  bool refused_direct() const { return descriptor_ < 0; }
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

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

/// Transfers whole blocks of one file; knows the folder for messages.
class Transfers {
 public:
  Transfers(int descriptor, const fs::path& folder, std::int64_t blocks)
      : descriptor_(descriptor), folder_(folder), blocks_(blocks) {}

  /// Seconds until all blocks are on the drive.
  double write_all() const {
    return run([this](std::span<std::byte> buffer, std::int64_t number) {
      stamp(buffer, number);
      transfer(buffer, number, "write", [](int file, std::byte* at, std::size_t size, off_t from) {
        return pwrite(file, at, size, from);
      });
    });
  }

  double read_all() const {
    return run([this](std::span<std::byte> buffer, std::int64_t number) {
      transfer(buffer, number, "read", [](int file, std::byte* at, std::size_t size, off_t from) {
        return pread(file, at, size, from);
      });
      std::int64_t found = -1;
      std::memcpy(&found, buffer.data(), sizeof(found));
      if (found != number) {
        throw ResourceError(folder_.string() +
                            ": the drive returned other bytes than were written");
      }
    });
  }

 private:
  using BlockWork = std::function<void(std::span<std::byte>, std::int64_t)>;
  using Call = ssize_t (*)(int, std::byte*, std::size_t, off_t);

  double run(const BlockWork& work) const {
    Mapping memory(kBlock * kBlocksInFlight);
    fill(memory.bytes(), 1);
    std::atomic<std::int64_t> next = 0;
    const auto start = Clock::now();
    on_threads(kBlocksInFlight, [&](int thread) {
      const auto length = static_cast<std::size_t>(kBlock.count);
      const auto buffer = memory.bytes().subspan(static_cast<std::size_t>(thread) * length, length);
      for (std::int64_t number = next++; number < blocks_; number = next++) {
        try {
          work(buffer, number);
        } catch (...) {
          next = blocks_;  // nobody begins another
          throw;
        }
      }
    });
    if (fdatasync(descriptor_) != 0)
      throw system_error("sync failed in " + folder_.string(), errno);
    return seconds_since(start);
  }

  /// A short transfer is continued where it stopped.
  void transfer(std::span<std::byte> buffer, std::int64_t number, const char* what,
                Call call) const {
    const off_t from = number * kBlock.count;
    for (std::size_t done = 0; done < buffer.size();) {
      const ssize_t moved = call(descriptor_, buffer.data() + done, buffer.size() - done,
                                 from + static_cast<off_t>(done));
      if (moved < 0 && errno == EINTR) continue;
      if (moved <= 0) {
        throw system_error(folder_.string() + ": cannot " + what + " a test file at byte " +
                               std::to_string(from + static_cast<off_t>(done)),
                           moved < 0 ? errno : EIO);
      }
      done += static_cast<std::size_t>(moved);
    }
  }

  const int descriptor_;
  const fs::path folder_;
  const std::int64_t blocks_;
};

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

std::optional<DriveRates> measure_drive(const fs::path& folder, Bytes size) {
  FERRY_CHECK(size > 0_B, "a test file needs a size");
  const Bytes length = round_up(size, kBlock);
  if (const Bytes have = free_space(folder); length + kSpaceKept > have) {
    throw ResourceError(folder.string() + ": a test file of " + to_string(length) + " needs " +
                        to_string(length + kSpaceKept) + ", the drive has " + to_string(have) +
                        "; make room or take a smaller one (--drive-size)");
  }
  const NamelessFile file(folder);
  if (file.refused_direct()) return std::nullopt;
  // Extents are found before the clock starts; where a file system cannot, writes find them.
  if (fallocate(file.descriptor(), 0, 0, length.count) != 0 && errno != EOPNOTSUPP) {
    throw system_error("cannot reserve " + to_string(length) + " in " + folder.string(), errno);
  }
  const Transfers transfers(file.descriptor(), folder, length.count / kBlock.count);
  const auto bytes = static_cast<double>(length.count);
  const double writing = transfers.write_all();
  return DriveRates{.read = bytes / transfers.read_all(), .write = bytes / writing};
}

}  // namespace ferry
