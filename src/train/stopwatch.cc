#include "train/stopwatch.h"

#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "device/device_event.h"
#include "train/driving_thread.h"

namespace ferry {
namespace {

constexpr int kWarmUps = 2;
constexpr int kRounds = 9;
constexpr Micros kRoundLength{20'000};  // a turn repeats a work until it takes about this long

using Clock = std::chrono::steady_clock;

Micros since(Clock::time_point start) {
  return {std::chrono::duration<double, std::micro>(Clock::now() - start).count()};
}

/// What the process has used of the cores so far.
Micros core_time() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return {static_cast<double>(used.tv_sec) * 1e6 + static_cast<double>(used.tv_nsec) * 1e-3};
}

}  // namespace

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

Stopwatch::Timing Stopwatch::run(const Work& work, int repeats) const {
  const Micros used = core_time();
  const Clock::time_point start = Clock::now();
  on_driving_thread(device_.simulated(), [&] {
    device_.attach_thread();
    const c10::StreamGuard current(stream_);
    for (int i = 0; i < repeats; ++i) work();
  });
  device_.synchronize();
  return {since(start), core_time() - used};
}

// A work is enqueued while it runs, as in training; on a GPU behind one that still runs, since
// there training is kernels ahead. Cores are those of works that follow each other.
Stopwatch::Timing Stopwatch::run_after(const Work& between, const Work& work, int repeats) const {
  const Timing warm = run(work, repeats);
  DeviceEvent begun(device_, DeviceEvent::Timing::kOn), done(device_, DeviceEvent::Timing::kOn);
  const auto timed = [&] {
    begun.record(stream_);
    work();
    done.record(stream_);
  };
  Micros device;
  for (int i = 0; i < repeats; ++i) {
    if (device_.simulated()) {
      run(between, 1);
      run(timed, 1);
    } else {
      const auto behind_another = [&] {
        work();
        between();
        timed();
      };
      run(behind_another, 1);
    }
    device += DeviceEvent::between(begun, done);
  }
  return {device, device * (warm.cores.count / std::max(warm.device.count, 1.0))};
}

std::vector<Stopwatch::Timing> Stopwatch::time(const std::vector<Work>& works, Micros most,
                                               const Work& between) const {
  struct Samples {
    int repeats = 1;
    std::vector<double> device, cores;
  };
  std::vector<Samples> samples;
  Micros left = most, round_length, before_each;
  if (between) {
    run(between, 1);
    before_each = run(between, 1).device;
  }
  for (const Work& work : works) {
    Micros once = run(work, 1).device;
    left = left - once;
    for (int i = 0; i < kWarmUps && once < kRoundLength; ++i) once = run(work, 1).device;
    if (between) once += once + before_each;
    const double repeats = std::clamp(kRoundLength.count / std::max(once.count, 1.0), 1.0, 200.0);
    samples.push_back({static_cast<int>(repeats), {}, {}});
    round_length += once * samples.back().repeats;
  }
  const int rounds = static_cast<int>(
      std::clamp(left.count / std::max(round_length.count, 1.0), 1.0, double{kRounds}));
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < works.size(); ++i) {
      Samples& found = samples[i];
      const Timing taken =
          between ? run_after(between, works[i], found.repeats) : run(works[i], found.repeats);
      found.device.push_back(taken.device.count / found.repeats);
      found.cores.push_back(taken.cores.count / found.repeats);
    }
  }
  std::vector<Timing> timings;
  for (Samples& found : samples) {
    timings.push_back({{median(std::move(found.device))}, {median(std::move(found.cores))}});
  }
  return timings;
}

Stopwatch::Weighed Stopwatch::weigh(const Work& work) const {
  device_.reset_peak();
  const Bytes before = device_.memory_use().live;
  const Timing timing = run(work, 1);
  return {timing, device_.memory_use().peak - before};
}

Micros hop_time(Device& device) {
  constexpr int kRoundTrips = 100;
  const c10::Stream there = device.stream("compute"), back = device.stream("weights_up");
  const at::Tensor bytes = device.slab(1024_B);
  const at::Tensor first = bytes.narrow(0, 0, 512), second = bytes.narrow(0, 512, 512);
  DeviceEvent done(device), returned(device);
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    on_driving_thread(device.simulated(), [&] {
      for (int i = 0; i < kRoundTrips; ++i) {
        {
          const c10::StreamGuard current(there);
          first.zero_();
          done.record(there);
          done.block(back);
        }
        const c10::StreamGuard current(back);
        second.copy_(first);
        returned.record(back);
        returned.block(there);
      }
    });
    device.synchronize();
    const std::chrono::duration<double, std::micro> taken =
        std::chrono::steady_clock::now() - start;
    rounds.push_back(taken.count() / (2 * kRoundTrips));
  }
  return {median(std::move(rounds))};
}

}  // namespace ferry
