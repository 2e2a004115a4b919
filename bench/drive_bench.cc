// What a folder's drive gives through DriveSpace, by engine and size of requests: bytes per second
// and processor time per byte, next to what measure_drive() tells of it for machine files.
//
// Usage: drive_bench [folder = .] [size in MiB = 256] [repeats = 3]
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <mutex>
#include <utility>
#include <vector>

#include "base/error.h"
#include "measure.h"
#include "spec/host_limits.h"
#include "store/drive_space.h"
#include "store/host_slab.h"
#include "store/rates.h"

namespace ferry {
namespace {

constexpr Bytes kValue = 32_MiB;  // a value of a plan: two are moved at a time, as copies overlap
constexpr Bytes kMemory = 2 * kValue;

/// Waits for transfers, of which two are under way at most.
class Pair {
 public:
  DriveSpace::Done begin() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return under_way_ < 2; });
    ++under_way_;
    return [this](std::exception_ptr error) {
      const std::lock_guard inner(mutex_);
      if (error && !error_) error_ = std::move(error);
      --under_way_;
      changed_.notify_all();
    };
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return under_way_ == 0; });
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int under_way_ = 0;
  std::exception_ptr error_;
};

void move_all(DriveSpace& space, IoKind kind, const HostSlab& slab) {
  Pair pair;
  for (Bytes at; at < space.size(); at += kValue) {
    const auto memory = slab.at(Bytes{at.count % kMemory.count}, kValue);
    if (kind == IoKind::write) {
      space.write(at, memory, pair.begin());
    } else {
      space.read(at, memory, pair.begin());
    }
  }
  pair.wait();
}

struct Way {
  const char* name;
  IoChoice io;
  Bytes request;
  int in_flight;
};

void measure(const std::filesystem::path& folder, Bytes size, int repeats) {
  HostSlab slab(kMemory);
  for (std::size_t i = 0; i < slab.bytes().size(); ++i) {  // no zeros, which drives may not store
    slab.bytes()[i] = static_cast<std::byte>(i * 2654435761U >> 13);
  }
  std::vector<Way> ways;
  for (const Bytes request : {256_KiB, 1_MiB, 4_MiB}) {
    for (const int in_flight : {16, 32}) {
      ways.push_back({"io_uring", IoChoice::io_uring, request, in_flight});
      ways.push_back({"threads", IoChoice::threads, request, in_flight});
    }
  }
  std::printf("%-10s %8s %9s %12s %12s %14s %14s\n", "engine", "request", "in flight", "write MB/s",
              "read MB/s", "write CPU s/GB", "read CPU s/GB");
  const double megabytes = static_cast<double>(size.count) * 1e-6;
  for (const Way& way : ways) {
    try {
      DriveSpace space({.name = "drive_bench",
                        .parts = {{folder, 1}},
                        .size = size,
                        .io = way.io,
                        .request = way.request,
                        .in_flight = way.in_flight});
      space.use_memory(slab.bytes());
      const auto seconds = median_seconds({{"write", [&] { move_all(space, IoKind::write, slab); }},
                                           {"read", [&] { move_all(space, IoKind::read, slab); }}},
                                          repeats);
      std::printf("%-10s %8s %9d %12.0f %12.0f %14.3f %14.3f\n", way.name,
                  to_string(way.request).c_str(), way.in_flight, megabytes / seconds[0].wall,
                  megabytes / seconds[1].wall, seconds[0].cpu / megabytes * 1e3,
                  seconds[1].cpu / megabytes * 1e3);
    } catch (const ResourceError& error) {
      std::printf("%-10s %8s %9d %s\n", way.name, to_string(way.request).c_str(), way.in_flight,
                  error.what());
    }
  }
  const auto rates = measure_drive(folder, size, cores_by_affinity());
  print_figure("measure_drive write", rates ? rates->write * 1e-6 : 0, "MB/s");
  print_figure("measure_drive read", rates ? rates->read * 1e-6 : 0, "MB/s");
  print_figure("lost to it of computing threads", rates ? rates->cores : 0, "cores");
}

}  // namespace
}  // namespace ferry

int main(int argc, char** argv) {
  const char* const folder = argc > 1 ? argv[1] : ".";
  const long megabytes = argc > 2 ? std::atol(argv[2]) : 256;
  const int repeats = argc > 3 ? std::atoi(argv[3]) : 3;
  const ferry::Bytes size = ferry::round_up(ferry::Bytes{megabytes << 20}, ferry::kValue);
  if (size <= ferry::Bytes{} || repeats < 1) return 2;
  ferry::measure(folder, size, repeats);
  return 0;
}
