#include "train/stopwatch.h"

#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/median.h"
#include "base/steady_time.h"
#include "device/device_event.h"
#include "train/driving_thread.h"

namespace ferry {
namespace {

constexpr int kWarmUps = 2;
constexpr int kRounds = 9;
constexpr Micros kRoundLength{20'000};  // a turn repeats a work until it takes about this long

/// How often a work is repeated in a round.
int repeats_of(Micros length) {
  return static_cast<int>(std::clamp(kRoundLength.count / std::max(length.count, 1.0), 1.0, 200.0));
}

/// What the process has used of the cores so far.
Micros core_time() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return {static_cast<double>(used.tv_sec) * 1e6 + static_cast<double>(used.tv_nsec) * 1e-3};
}

}  // namespace

Stopwatch::Timing Stopwatch::run(const Work& work, int repeats) const {
  const Micros used = core_time();
  const SteadyTime start = std::chrono::steady_clock::now();
  on_driving_thread(device_.simulated(), [&] {
    device_.attach_thread();
    const c10::StreamGuard current(stream_);
    for (int i = 0; i < repeats; ++i) work();
  });
  device_.synchronize();
  const Micros device = since(start);
  return {device, device, core_time() - used};
}

// A step enqueues while it computes, which takes cores, and caches, from a simulated device. Cores
// are not seen: what `between` uses is among them.
Stopwatch::Timing Stopwatch::run_after(const Work& between, const Work& work, int repeats) const {
  struct Pair {
    explicit Pair(const Device& device)
        : begun(device, DeviceEvent::Timing::kOn),
          half(device, DeviceEvent::Timing::kOn),
          done(device, DeviceEvent::Timing::kOn) {}
    DeviceEvent begun, half, done;
  };
  std::vector<Pair> pairs;
  for (int i = 0; i < repeats; ++i) pairs.emplace_back(device_);
  const auto one_ahead = [&] {
    work();  // the first pair is enqueued meanwhile
    for (Pair& pair : pairs) {
      between();
      pair.begun.record(stream_);
      work();
      pair.half.record(stream_);
      work();
      pair.done.record(stream_);
      pair.begun.wait();
      work();  // enqueued beside the pair, as much as runs meanwhile
      work();
    }
  };
  run(one_ahead, 1);
  Timing all;
  for (const Pair& pair : pairs) {
    all.device += DeviceEvent::between(pair.begun, pair.half);
    all.again += DeviceEvent::between(pair.half, pair.done);
  }
  return all;
}

std::vector<Stopwatch::Timing> Stopwatch::time(const std::vector<Work>& works, Micros most,
                                               const Work& between) const {
  struct Samples {
    int repeats = 1;
    double busy = 0;  // cores, while works follow each other
    std::vector<double> device = {}, again = {}, cores = {};
  };
  std::vector<Samples> samples;
  Micros left = most, round_length, before_each;
  if (between) {
    run(between, 1);
    before_each = run(between, 1).device;
  }
  for (const Work& work : works) {
    Timing once = run(work, 1);
    left = left - once.device;
    for (int i = 0; i < kWarmUps && once.device < kRoundLength; ++i) once = run(work, 1);
    Micros length = once.device;
    Samples& found = samples.emplace_back();
    if (between) {
      const int repeats = repeats_of(length);
      if (repeats > 1) once = run(work, repeats);
      found.busy = once.cores.count / std::max(once.device.count, 1.0);
      length = length * kWorksPerRound + before_each;
    }
    found.repeats = repeats_of(length);
    round_length += length * found.repeats;
  }
  const int rounds = static_cast<int>(
      std::clamp(left.count / std::max(round_length.count, 1.0), 1.0, double{kRounds}));
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < works.size(); ++i) {
      Samples& found = samples[i];
      const Timing taken =
          between ? run_after(between, works[i], found.repeats) : run(works[i], found.repeats);
      found.device.push_back(taken.device.count / found.repeats);
      found.again.push_back(taken.again.count / found.repeats);
      const Micros cores = between ? taken.again * found.busy : taken.cores;
      found.cores.push_back(cores.count / found.repeats);
    }
  }
  std::vector<Timing> timings;
  for (Samples& found : samples) {
    timings.push_back({{median(std::move(found.device))},
                       {median(std::move(found.again))},
                       {median(std::move(found.cores))}});
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
    rounds.push_back(since(start).count / (2 * kRoundTrips));
  }
  return {median(std::move(rounds))};
}

}  // namespace ferry
