// One body for every make of device; cuda is skipped where there is none.
#include "device/device.h"

#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/steady_time.h"
#include "device/device_clock.h"
#include "device/device_event.h"
#include "device/host_registration.h"
#include "device/memory_share.h"
#include "device/simulation.h"
#include "device/straight_copy.h"
#include "device/tensor_views.h"
#include "device/testing.h"

namespace ferry {
namespace {

using at::Tensor;

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

/// Host memory that starts on a page.
class Pages {
 public:
  explicit Pages(std::size_t size)
      : memory_(static_cast<std::byte*>(std::aligned_alloc(4096, size)), &std::free), size_(size) {}
  std::span<std::byte> bytes() const { return {memory_.get(), size_}; }

 private:
  std::unique_ptr<std::byte, void (*)(void*)> memory_;
  std::size_t size_;
};

class DeviceOfAnyMake : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "sim:0") {
      SimOptions options;
      options.devices = {{64_MiB, 1, {}, {}, 0}};
      options.hazards = options.poison = true;
      simdev_open(options);
    }
    const DeviceIfHere here(GetParam());
    if (!here.device) GTEST_SKIP() << here.why_not;
    device_ = here.device;
  }
  void TearDown() override {
    device_.reset();
    simdev_close();
  }
  Device& device() { return *device_; }

 private:
  std::optional<Device> device_;
};

TEST_P(DeviceOfAnyMake, AStreamIsMadeOncePerPurpose) {
  const c10::Stream load = device().stream("load");
  EXPECT_EQ(device().stream("load"), load);
  EXPECT_NE(device().stream("compute"), load);
  EXPECT_EQ(load.device(), device().torch_device());
}

TEST_P(DeviceOfAnyMake, ASlabTakesWhatIsKeptOfTensorsThatAreGone) {
  at::empty({24 << 20}, at::TensorOptions(at::kByte).device(device().torch_device()));
  device().synchronize();
  EXPECT_GE(device().memory_use().kept, 24_MiB);
  const Tensor slab = device().slab(32_MiB);
  // What torch takes of a GPU is a multiple of this.
  const Bytes segment = device().simulated() ? 1_B : 20_MiB;
  EXPECT_LT(device().memory_use().kept, segment);
}

// Host memory to a slot, a product on another stream, and back: ordered by events alone.
TEST_P(DeviceOfAnyMake, ASlotIsLoadedUsedAndOffloadedWithoutTheHostWaiting) {
  const Pages pages(1 << 20);
  const HostRegistration registration(device(), pages.bytes());
  const Tensor weights = host_view(pages.bytes(), {64, 64}, at::kFloat);
  const Tensor result = host_view(pages.bytes().subspan(512 << 10), {64, 64}, at::kFloat);
  weights.copy_(at::eye(64));
  const Tensor slab = device().slab(1_MiB);
  const Tensor slot = view(slab, 256_KiB, {64, 64}, at::kFloat);
  const c10::Stream load = device().stream("load"), compute = device().stream("compute");
  DeviceEvent loaded(device()), computed(device()), offloaded(device());
  {
    const c10::StreamGuard guard(load);
    slot.copy_(weights, /*non_blocking=*/true);
    loaded.record(load);
  }
  {
    const c10::StreamGuard guard(compute);
    loaded.block(compute);
    slot.mul_(3.0);
    computed.record(compute);
  }
  {
    const c10::StreamGuard guard(load);
    computed.block(load);
    result.copy_(slot, /*non_blocking=*/true);
    offloaded.record(load);
  }
  offloaded.wait();
  EXPECT_TRUE(offloaded.done());
  EXPECT_TRUE(at::equal(result, at::eye(64) * 3.0));
  device().synchronize();
  if (device().simulated()) {
    EXPECT_TRUE(simdev_hazards().empty());
  }
}

TEST_P(DeviceOfAnyMake, LiveAndPeakBytesAreTold) {
  const Bytes before = device().memory_use().live;
  Tensor slab = device().slab(2_MiB);
  EXPECT_EQ(device().memory_use().live - before, 2_MiB);
  slab = Tensor();
  EXPECT_EQ(device().memory_use().live, before);
  EXPECT_GE(device().memory_use().peak, 2_MiB);
  device().reset_peak();
  EXPECT_EQ(device().memory_use().peak, before);
}

TEST_P(DeviceOfAnyMake, WhatOneOfItsUsersHoldsIsToldApart) {
  MemoryShare one(device(), 1_MiB), other(device(), 0_B);
  Tensor kept;
  one.count([&] { device().slab(4_MiB); });
  other.count([&] { kept = device().slab(3_MiB); });
  EXPECT_EQ(one.peak(), 5_MiB);
  EXPECT_EQ(other.peak(), 3_MiB);
  one.count([&] { device().slab(2_MiB); });  // beside what the other keeps, and less than before
  other.count([&] { device().slab(2_MiB); });
  EXPECT_EQ(one.peak(), 5_MiB);
  EXPECT_EQ(other.peak(), 5_MiB);
  other.count([&] { kept = Tensor(); });
  other.count([&] { device().slab(4_MiB); });
  EXPECT_EQ(other.peak(), 5_MiB);
}

TEST_P(DeviceOfAnyMake, EventsMeasureTimeWhenAskedTo) {
  DeviceEvent first(device(), DeviceEvent::Timing::kOn);
  DeviceEvent second(device(), DeviceEvent::Timing::kOn);
  const c10::Stream stream = device().stream("compute");
  first.record(stream);
  {
    const c10::StreamGuard guard(stream);
    at::ones({1 << 16}, device().torch_device()).add_(1);
  }
  second.record(stream);
  second.wait();
  EXPECT_GT(DeviceEvent::between(first, second), Micros{0});
}

// A day of steps on a host's clock that runs a thousand times as fast.
TEST_P(DeviceOfAnyMake, EventsKeepTheHostsTimeWhileTheClockIsRenewed) {
  Micros host{0};
  DeviceClock clock(
      device(), [&] { return host; }, Micros{50e6});
  const c10::Stream stream = device().stream("compute");
  DeviceEvent event(device(), DeviceEvent::Timing::kOn);
  for (int step = 1; step <= 20; ++step) {
    host = Micros{step * 30e6};
    clock.renew();
    device().synchronize();
    event.record(stream);
    event.wait();
    // The device's own time hardly moves: an event's is that of the epoch, which follows the
    // host's.
    EXPECT_NEAR(clock.time_of(event).count, host.count, 61e6) << step;
  }
  EXPECT_GE(clock.renewals(), 6);
}

// The thread that reads the host's clock loses its core before and after all readings but one.
TEST_P(DeviceOfAnyMake, TheClockGoesByTheReadingThatWasNotInterrupted) {
  const auto now = [] { return since(SteadyTime{}); };
  constexpr std::chrono::milliseconds kInterruption{20};
  int reading = 0;
  DeviceClock clock(device(), [&] {
    const bool interrupted = ++reading != 4;
    if (interrupted) std::this_thread::sleep_for(kInterruption);
    const Micros read = now();
    if (interrupted) std::this_thread::sleep_for(kInterruption);
    return read;
  });
  const c10::Stream stream = device().stream("compute");
  DeviceEvent event(device(), DeviceEvent::Timing::kOn);
  const Micros before = now();
  event.record(stream);
  event.wait();
  EXPECT_NEAR(clock.time_of(event).count, before.count, 10e3);
}

TEST_P(DeviceOfAnyMake, AnEventThatWasNeverRecordedIsDone) {
  DeviceEvent event(device());
  EXPECT_TRUE(event.done());
  event.block(device().stream("compute"));
  event.wait();
  device().synchronize();
}

INSTANTIATE_TEST_SUITE_P(Makes, DeviceOfAnyMake, testing::Values("sim:0", "cuda:0"),
                         [](const auto& make) {
                           return make.param.substr(0, make.param.find(':'));
                         });

TEST(Device, ANameOfAnotherFormIsTheUsersError) {
  for (const char* name : {"gpu0", "sim", "sim:", "sim:x", "sim:-1", "cpu", ""}) {
    EXPECT_THROW(Device::open(name), UserError) << name;
  }
}

TEST(Device, ADeviceThatIsNotThereIsTheMachinesError) {
  SimOptions options;
  options.devices = {{1_MiB, 1, {}, {}, 0}};
  simdev_open(options);
  EXPECT_EQ(error_of([] { Device::open("sim:1"); }),
            "sim:1 is not there: this machine has 1 simulated devices");
  simdev_close();
  EXPECT_THROW(Device::open("sim:0"), ResourceError);
}

TEST(TensorViews, AViewSharesTheSlabsBytes) {
  const Tensor slab = at::zeros({64}, at::kByte);
  view(slab, 16_B, {2, 4}, at::kBFloat16).fill_(1.0);
  EXPECT_EQ(slab.ne(0).sum().item<int>(), 16)
      << "1.0 in bf16 is 0x3F80, and there are 8 of them" << slab;
}

TEST(TensorViewsDeathTest, AViewThatLeavesItsSlabOrIsNotAlignedIsOurMistake) {
  const Tensor slab = at::zeros({64}, at::kByte);
  EXPECT_DEATH(view(slab, 32_B, {9}, at::kFloat), "leaves its slab of 64 bytes");
  EXPECT_DEATH(view(slab, 2_B, {1}, at::kFloat), "not aligned");
  std::array<std::byte, 16> bytes{};
  EXPECT_DEATH(host_view(bytes, {17}, at::kByte), "leaves its 16 bytes");
}

/// Remembers what was locked; fails at the n-th lock when asked to.
struct FakeLocking {
  std::vector<std::string> log;
  std::size_t fail_at = 0;
  const std::byte* begin = nullptr;

  PageLocking locking() {
    return {[this](std::span<std::byte> chunk) -> std::string {
              log.push_back("lock " + describe(chunk));
              return log.size() == fail_at ? "out of memory" : "";
            },
            [this](std::span<std::byte> chunk) -> std::string {
              log.push_back("unlock " + describe(chunk));
              return "";
            }};
  }
  std::string describe(std::span<std::byte> chunk) const {
    return std::to_string(chunk.data() - begin) + "+" + std::to_string(chunk.size());
  }
};

TEST(HostRegistration, MemoryIsLockedInChunksAndUnlockedInReverse) {
  const Pages pages(10 * 4096);
  FakeLocking fake{{}, 0, pages.bytes().data()};
  { const HostRegistration registration(fake.locking(), pages.bytes(), 16_KiB); }
  EXPECT_EQ(fake.log, (std::vector<std::string>{"lock 0+16384", "lock 16384+16384",
                                                "lock 32768+8192", "unlock 32768+8192",
                                                "unlock 16384+16384", "unlock 0+16384"}));
}

TEST(HostRegistration, TellsHowMuchIsLocked) {
  struct Listener final : PhaseListener {
    void progress(const Progress& progress) override {
      told.push_back(progress.what + " " + std::to_string(progress.done) + "/" +
                     std::to_string(progress.total));
    }
    std::vector<std::string> told;
  } listener;
  const Pages pages(3 * 4096);
  FakeLocking fake{{}, 0, pages.bytes().data()};
  const HostRegistration registration(fake.locking(), pages.bytes(), 8_KiB, listener);
  EXPECT_EQ(listener.told,
            (std::vector<std::string>{"page-locking 0/12288", "page-locking 8192/12288",
                                      "page-locking 12288/12288"}));
}

TEST(HostRegistration, AFailureUnlocksWhatWasLockedBefore) {
  const Pages pages(10 * 4096);
  FakeLocking fake{{}, 2, pages.bytes().data()};
  EXPECT_EQ(error_of([&] { HostRegistration(fake.locking(), pages.bytes(), 16_KiB); }),
            "page-locking 40.0 KiB of host memory failed at byte 16384: out of memory");
  EXPECT_EQ(fake.log,
            (std::vector<std::string>{"lock 0+16384", "lock 16384+16384", "unlock 0+16384"}));
}

TEST(HostRegistration, AMovedOneUnlocksOnce) {
  const Pages pages(4096);
  FakeLocking fake{{}, 0, pages.bytes().data()};
  {
    HostRegistration first(fake.locking(), pages.bytes(), 16_KiB);
    const HostRegistration second(std::move(first));
  }
  EXPECT_EQ(fake.log.size(), 2u);
}

/// Two devices whose copies straight to each other run at 1 MB/s.
SimOptions pair() {
  SimOptions options;
  options.pool_capacities = {1e6, 1e6, 1e6, 1e6};
  for (int d = 0; d < 2; ++d) {
    SimDeviceSpec& device = options.devices.emplace_back();
    device.memory = 1_MiB;
    device.peer_out = {{PoolId(2 * d), 1e6}};
    device.peer_in = {{PoolId(2 * d + 1), 1e6}};
  }
  options.hazards = true;
  return options;
}

// What the other device has on its own current stream is not in the way, nor the copy in its.
TEST(StraightCopies, MeetNoWorkOfTheOtherDevice) {
  simdev_open(pair());
  {
    Device first = Device::open("sim:0"), second = Device::open("sim:1");
    const Tensor sent = first.slab(100_KiB), received = second.slab(100_KiB);
    sent.fill_(7);
    first.synchronize();
    const StraightCopies way(first, second, "to_second");
    DeviceEvent arrived(first);
    {
      const c10::StreamGuard current(first.stream("copies"));
      way.copy(sent, received);
      arrived.record(first.stream("copies"));
    }
    EXPECT_FALSE(arrived.done()) << "the copy takes 0.1 s";
    const Tensor own = at::ones({4}, second.torch_device());
    EXPECT_EQ(own.sum().cpu().item<float>(), 4);
    EXPECT_FALSE(arrived.done()) << "and nobody has waited for it";
    arrived.wait();
    EXPECT_TRUE(received.cpu().eq(7).all().item<bool>());
    EXPECT_TRUE(simdev_hazards().empty());
  }
  simdev_close();
}

TEST(StraightCopies, WrongBytesAreSeen) {
  simdev_open(pair());
  {
    Device first = Device::open("sim:0"), second = Device::open("sim:1");
    const Tensor here = first.slab(2000_B), there = second.slab(2000_B);
    EXPECT_TRUE(arrive_whole(first, here, second, there));
    simdev_spoil_copies(0, 1);
    EXPECT_FALSE(arrive_whole(first, here, second, there));
    EXPECT_TRUE(arrive_whole(second, there, first, here));
  }
  simdev_close();
}

// Several logical devices on one: an ordinary copy on the current stream.
TEST(StraightCopies, WithinOneDeviceAreOrdinaryOnes) {
  simdev_open(pair());
  {
    Device first = Device::open("sim:0"), second = Device::open("sim:0");
    const Tensor here = first.slab(2000_B), there = second.slab(2000_B);
    EXPECT_TRUE(arrive_whole(first, here, second, there));
    EXPECT_TRUE(simdev_hazards().empty());
  }
  simdev_close();
}

}  // namespace
}  // namespace ferry
