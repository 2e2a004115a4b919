// The simulated device as an accelerator: memory, copies, errors, strict mode, opening and closing.
#include "simdev/simdev.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <thread>

#include "base/error.h"

namespace ferry {
namespace {

using at::Tensor;

const c10::DeviceType kSim = c10::DeviceType::PrivateUse1;
const c10::Device kFirst(kSim, 0);
const c10::Device kSecond(kSim, 1);

c10::impl::VirtualGuardImpl accelerator() { return c10::impl::VirtualGuardImpl(kSim); }

c10::Stream new_stream(c10::Device device = kFirst) {
  return accelerator().getNewStream(device, 0);
}

void synchronize(c10::Device device = kFirst) { accelerator().synchronizeDevice(device.index()); }

Tensor bytes_on(c10::Device device, Bytes size) {
  return at::empty({size.count}, at::TensorOptions().dtype(at::kByte).device(device));
}

SimOptions devices(std::initializer_list<Bytes> memory) {
  SimOptions options;
  for (const Bytes size : memory) options.devices.push_back({size, 1, {}, {}, 0});
  return options;
}

/// One or two devices whose links of 1 MB/s hang under one root of 1 MB/s.
SimOptions throttled(int count) {
  SimOptions options;
  options.pool_capacities = {1e6};
  for (int k = 0; k < count; ++k) {
    const auto link = static_cast<int>(options.pool_capacities.size());
    options.pool_capacities.push_back(1e6);
    options.devices.push_back({64_MiB, 1, {{link, 1e6}, {0, 1e6}}, {{link, 1e6}, {0, 1e6}}, 0});
  }
  return options;
}

/// Threads of this process that do not interrupt others when they wake up.
int polite_threads() {
  int count = 0;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    const int id = std::stoi(thread.path().filename());
    count += sched_getscheduler(id) == SCHED_BATCH ? 1 : 0;
  }
  return count;
}

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// A busy machine makes a run that is alone longer, never shorter.
double shortest_of_three(const std::function<void()>& work) {
  return std::min({seconds_of(work), seconds_of(work), seconds_of(work)});
}

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

class SimDevice : public testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(1); }
  void TearDown() override { simdev_close(); }
};

std::ptrdiff_t threads_of_process() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                       std::filesystem::directory_iterator());
}

// A thread that keeps its team makes those of others sleep at every barrier.
TEST_F(SimDevice, AStreamAtRestGivesItsKernelsThreadsBack) {
  constexpr int kThreads = 3;
  SimOptions options;
  options.devices = {{16_MiB, kThreads, {}, {}, 0}};
  simdev_open(options);
  const c10::StreamGuard guard(new_stream(kFirst));
  const auto compute = [] { return at::ones({1 << 20}, kFirst).add_(1).sum().cpu().item<float>(); };
  at::ones({4}, kFirst).cpu();  // the streams' own threads are there
  const std::ptrdiff_t before = threads_of_process();
  bool had_threads = false;  // it may rest, on a busy machine, before they are counted
  for (int tries = 0; tries < 100 && !had_threads; ++tries) {
    EXPECT_EQ(compute(), 1 << 21);
    had_threads = threads_of_process() == before + kThreads - 1;
  }
  EXPECT_TRUE(had_threads);
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (threads_of_process() > before && std::chrono::steady_clock::now() < patience) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(threads_of_process(), before);
  EXPECT_EQ(compute(), 1 << 21);  // with new ones
}

// Else each launch would lose its core to the kernel that it woke, and never be ahead.
TEST_F(SimDevice, ThreadsOfKernelsInterruptNobodyWhenTheyWakeUp) {
  SimOptions options = devices({16_MiB});
  options.devices.front().threads = 2;
  simdev_open(options);
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  const auto are_polite = [&](int count) {
    return polite_threads() == count || std::chrono::steady_clock::now() > patience;
  };
  while (!are_polite(0)) std::this_thread::yield();  // threads of an earlier test end
  const c10::StreamGuard guard(new_stream(kFirst));
  const Tensor copied = at::ones({1 << 20}).to(kFirst);
  EXPECT_EQ(polite_threads(), 0) << "copies are short, and others wait for them";
  bool all = false;  // the second may rest, on a busy machine, before it is counted
  for (int tries = 0; tries < 100 && !all; ++tries) {
    EXPECT_EQ((copied + copied).sum().cpu().item<float>(), 1 << 21);
    all = polite_threads() == 2;
  }
  EXPECT_TRUE(all) << "the stream's thread and the other one of its kernels";
}

// --- opening and closing ------------------------------------------------------------------------

TEST_F(SimDevice, MayBeOpenedAnewWithOtherDevices) {
  for (int count = 1; count <= 4; ++count) {
    SimOptions options;
    options.devices.assign(static_cast<std::size_t>(count), {1_MiB * count, 1, {}, {}, 0});
    simdev_open(options);
    EXPECT_EQ(accelerator().deviceCount(), count);
    const c10::Device last(kSim, static_cast<c10::DeviceIndex>(count - 1));
    const c10::StreamGuard guard(new_stream(last));
    EXPECT_EQ(at::ones({4}, last).sum().cpu().item<float>(), 4);
  }
  simdev_close();
  EXPECT_EQ(accelerator().deviceCount(), 0);
  EXPECT_THROW(bytes_on(kFirst, 1_KiB), c10::Error);
}

TEST_F(SimDevice, IsNotOpenedAnewWhileTensorsAreAlive) {
  simdev_open(devices({1_MiB}));
  const Tensor alive = bytes_on(kFirst, 64_KiB);
  EXPECT_NE(error_of([] { simdev_open(devices({2_MiB})); }).find("64.0 KiB are alive on sim:0"),
            std::string::npos);
}

TEST_F(SimDevice, ATensorMayOutliveItsDevice) {
  simdev_open(devices({1_MiB}));
  Tensor tensor = at::ones({1000}, kFirst);
  simdev_close();
  simdev_open(devices({1_MiB}));
  tensor = Tensor();
  EXPECT_EQ(simdev_stats(0).live, 0_B);
}

TEST_F(SimDevice, AStreamOfAnEarlierOpeningIsRefused) {
  simdev_open(devices({1_MiB}));
  const c10::Stream old = new_stream();
  simdev_open(devices({1_MiB}));
  new_stream();
  EXPECT_THROW(accelerator().synchronizeStream(old), c10::Error);
}

// --- memory -------------------------------------------------------------------------------------

TEST_F(SimDevice, AnAllocationBeyondTheCapSaysWhatWasAskedForAndWhatThereIs) {
  simdev_open(devices({1_MiB}));
  const Tensor held = bytes_on(kFirst, 768_KiB);
  EXPECT_THROW(bytes_on(kFirst, 512_KiB), c10::OutOfMemoryError);
  const std::string error = error_of([] { bytes_on(kFirst, 512_KiB); });
  EXPECT_NE(error.find("sim:0 is out of memory: 524288 bytes (512.0 KiB) asked for, 786432 of "
                       "1048576 (1.0 MiB, the device's cap) in use"),
            std::string::npos)
      << error;
  EXPECT_EQ(simdev_stats(0).live, 768_KiB);
}

TEST_F(SimDevice, ResultsOfOperatorsCountAgainstTheCap) {
  simdev_open(devices({1_MiB}));
  const Tensor x = at::ones({128, 1024}, kFirst);  // 512 KiB
  const Tensor y = x + x;
  EXPECT_THROW(x * y, c10::OutOfMemoryError);
}

TEST_F(SimDevice, EachDeviceHasItsOwnCap) {
  simdev_open(devices({1_MiB, 2_MiB}));
  const Tensor a = bytes_on(kFirst, 1_MiB), b = bytes_on(kSecond, 2_MiB);
  EXPECT_EQ(simdev_stats(0).live, 1_MiB);
  EXPECT_EQ(simdev_stats(1).live, 2_MiB);
  const auto [free, total] = c10::getDeviceAllocator(kSim)->getMemoryInfo(1);
  EXPECT_EQ(free, 0u);
  EXPECT_EQ(total, 2u << 20);
}

TEST_F(SimDevice, ThePeakIsTheMostAtOnce) {
  simdev_open(devices({1_MiB}));
  Tensor a = bytes_on(kFirst, 256_KiB);
  { const Tensor b = bytes_on(kFirst, 512_KiB); }
  EXPECT_EQ(simdev_stats(0).peak, 768_KiB);
  simdev_reset_peak(0);
  EXPECT_EQ(simdev_stats(0).peak, 256_KiB);
}

TEST_F(SimDevice, FreedMemoryDoesNotPileUp) {
  simdev_open(devices({1_MiB}));
  for (int i = 1; i < 500; ++i) {
    const Tensor x = at::full({i * 97}, 1.0, kFirst);
    const Tensor y = x + x;
    ASSERT_LE(simdev_stats(0).unused, 1_MiB);
  }
  c10::getDeviceAllocator(kSim)->emptyCache({0, 0});
  EXPECT_EQ(simdev_stats(0).unused, 0_B);
}

TEST_F(SimDevice, NewMemoryIsPoisonedWhenAskedFor) {
  SimOptions options = devices({1_MiB});
  options.poison = true;
  simdev_open(options);
  const auto like = at::TensorOptions().device(kFirst);
  EXPECT_TRUE(at::empty({64}, like).cpu().isnan().all().item<bool>());
  EXPECT_TRUE(at::empty({64}, like.dtype(at::kBFloat16)).cpu().isnan().all().item<bool>());
  { const Tensor ones = at::ones({64}, like); }
  EXPECT_TRUE(at::empty({64}, like).cpu().isnan().all().item<bool>()) << "reused memory as well";
}

// The host runs ahead: memory freed on the host is reused while earlier users are still queued.
TEST_F(SimDevice, MemoryIsReusedInStreamOrder) {
  simdev_open(devices({16_MiB}));
  Tensor sum = at::zeros({256 * 1024}, kFirst);
  for (int i = 0; i < 200; ++i) {
    const Tensor term = at::full({256 * 1024}, i, sum.options());
    sum.add_(term);
  }
  EXPECT_EQ(sum.cpu().max().item<float>(), 199 * 200 / 2);
  EXPECT_LE(simdev_stats(0).peak, 3_MiB);
}

TEST_F(SimDevice, RecordStreamKeepsMemoryUntilTheOtherStreamIsDone) {
  SimOptions options = throttled(1);
  options.hazards = options.poison = true;
  simdev_open(options);
  const c10::Stream copies = new_stream();
  Tensor host = at::zeros({5000});
  {
    const Tensor source = at::ones({5000}, kFirst);
    c10::Event ready(kSim);
    ready.record(accelerator().getStream(kFirst));
    const c10::StreamGuard guard(copies);
    ready.block(copies);
    host.copy_(source, true);
    source.record_stream(copies);
  }
  const Tensor next = at::full({5000}, 2.0, kFirst);
  synchronize();
  EXPECT_TRUE(host.eq(1).all().item<bool>());
  EXPECT_TRUE(simdev_hazards().empty());
}

// --- copies and links ---------------------------------------------------------------------------

TEST_F(SimDevice, AThrottledCopyTakesItsTimeInBothDirections) {
  simdev_open(throttled(1));
  const Tensor host = at::ones({50'000}, at::kByte);
  Tensor device;
  const double up = shortest_of_three([&] { device = host.to(kFirst); });
  const double down = shortest_of_three([&] { EXPECT_TRUE(at::equal(device.cpu(), host)); });
  for (const double seconds : {up, down}) {
    EXPECT_GE(seconds, 0.050);
    EXPECT_LT(seconds, 0.100);
  }
  EXPECT_EQ(simdev_stats(0).copies, 6);
  EXPECT_EQ(simdev_stats(0).bytes_copied.count, 300'000);
}

TEST_F(SimDevice, CopiesUnderOneRootTakeTwiceAsLong) {
  simdev_open(throttled(2));
  const Tensor host = at::ones({50'000}, at::kByte);
  const Tensor first = bytes_on(kFirst, {50'000}), second = bytes_on(kSecond, {50'000});
  const auto both = [&] {
    first.copy_(host, true);
    second.copy_(host, true);
    synchronize(kFirst);
    synchronize(kSecond);
  };
  const std::array seconds = {seconds_of(both), seconds_of(both), seconds_of(both)};
  // A busy machine makes a run longer, or shorter where a queue's thread wakes up late: what the
  // link would have moved since then counts as moved, and the other is not slowed for it (link.h).
  EXPECT_GE(*std::ranges::max_element(seconds), 0.100);
  EXPECT_LT(*std::ranges::min_element(seconds), 0.170);
}

TEST_F(SimDevice, ComputeRunsWhileAnotherStreamCopies) {
  simdev_open(throttled(1));
  const Tensor host = at::ones({200'000}, at::kByte);
  const Tensor slot = bytes_on(kFirst, {200'000});
  const c10::Stream copies = new_stream();
  {
    const c10::StreamGuard guard(copies);
    slot.copy_(host, true);
  }
  EXPECT_EQ(at::ones({4}, kFirst).sum().cpu().item<float>(), 4);
  EXPECT_FALSE(accelerator().queryStream(copies)) << "the copy takes 0.2 s";
  synchronize();
}

TEST_F(SimDevice, ACopyBetweenDevicesPassesBothLinks) {
  simdev_open(throttled(2));
  const Tensor on_first = at::ones({10'000}, kFirst);
  Tensor on_second;
  const double seconds = shortest_of_three([&] {
    on_second = on_first.to(kSecond);
    synchronize(kSecond);
  });
  EXPECT_GE(seconds, 0.080) << "both directions meet under the root: twice 40 kB at 1 MB/s";
  EXPECT_TRUE(on_second.cpu().eq(1).all().item<bool>());
}

TEST_F(SimDevice, ACopyBetweenDevicesWithAWayOfTheirOwnPassesNoLink) {
  SimOptions options = throttled(2);
  for (SimDeviceSpec& device : options.devices) {
    for (auto* draws : {&device.peer_out, &device.peer_in}) {
      *draws = {{PoolId(static_cast<int>(options.pool_capacities.size())), 2e6}};
      options.pool_capacities.push_back(2e6);
    }
  }
  simdev_open(options);
  const Tensor on_first = at::ones({100'000}, at::TensorOptions(at::kByte).device(kFirst));
  const Tensor on_second = bytes_on(kSecond, {100'000});
  const double seconds = shortest_of_three([&] {
    on_second.copy_(on_first, true);
    synchronize(kFirst);
  });
  EXPECT_GE(seconds, 0.050);
  EXPECT_LT(seconds, 0.100) << "the links would take 0.2 s";
  EXPECT_TRUE(on_second.cpu().eq(1).all().item<bool>());
}

TEST_F(SimDevice, ACopyBetweenDevicesIsOnTheSendersStream) {
  simdev_open(throttled(2));
  const Tensor on_first = bytes_on(kFirst, {50'000}), on_second = bytes_on(kSecond, {50'000});
  synchronize(kFirst);
  synchronize(kSecond);
  const c10::Stream sends = new_stream();
  {
    const c10::StreamGuard guard(sends);
    on_second.copy_(on_first, true);
  }
  EXPECT_FALSE(accelerator().queryStream(sends)) << "the copy takes 0.1 s";
  EXPECT_FALSE(accelerator().queryStream(accelerator().getStream(kSecond))) << "waits for it";
  EXPECT_TRUE(accelerator().queryStream(accelerator().getStream(kFirst)));
  accelerator().synchronizeStream(sends);
}

TEST_F(SimDevice, ASpoiledWayBringsWrongBytes) {
  simdev_open(devices({1_MiB, 1_MiB}));
  const Tensor first = at::ones({64}, kFirst), second = at::zeros({64}, kSecond);
  simdev_spoil_copies(0, 1);
  first.copy_(second, true);
  synchronize(kSecond);
  EXPECT_TRUE(first.cpu().eq(0).all().item<bool>()) << "the other way is sound";
  second.copy_(at::ones({64}, kFirst), true);
  synchronize(kFirst);
  EXPECT_FALSE(second.cpu().eq(1).all().item<bool>());
}

TEST_F(SimDevice, CopiesConvertAndGatherLikeTheCpu) {
  simdev_open(throttled(1));
  const Tensor host = at::arange(60, at::kFloat).view({6, 10});
  const Tensor device = at::empty({10, 6}, at::TensorOptions().dtype(at::kBFloat16).device(kFirst));
  device.t().copy_(host);
  Tensor back = at::empty({10, 6});
  back.copy_(device);
  EXPECT_TRUE(at::equal(back.t(), host));
}

// --- errors -------------------------------------------------------------------------------------

TEST_F(SimDevice, AnErrorOnAStreamComesOutAtTheNextWaitWithItsOrigin) {
  simdev_open(devices({1_MiB}));
  const c10::Stream stream = new_stream();
  simdev_name_stream(stream, "compute");
  simdev_set_label("F.3.0");
  {
    const c10::StreamGuard guard(stream);
    at::embedding(at::ones({4, 2}, kFirst), at::full({1}, 7, at::kLong).to(kFirst, true));
  }
  simdev_set_label("");
  const std::string error = error_of([&] { accelerator().synchronizeStream(stream); });
  EXPECT_EQ(error.find("sim:0/compute: aten::embedding of task F.3.0: index out of range"), 0u)
      << error;
  EXPECT_NO_THROW(accelerator().synchronizeStream(stream));
}

TEST_F(SimDevice, AFailedCopyComesOutAtTheEventAfterIt) {
  simdev_open(devices({1_MiB}));
  const Tensor host = at::ones({100}), device = at::zeros({100}, kFirst);
  const c10::Stream stream = accelerator().getStream(kFirst);
  simdev_fail_copy(2);
  device.copy_(host, true);
  device.copy_(host, true);
  c10::Event after(kSim);
  after.record(stream);
  EXPECT_THROW(after.synchronize(), ResourceError);
  EXPECT_NO_THROW(synchronize());
  device.copy_(host, true);
  EXPECT_NO_THROW(synchronize()) << "only the second copy was to fail";
}

TEST_F(SimDevice, TheErrorOfAStreamCanBeTaken) {
  simdev_open(devices({1_MiB}));
  const Tensor device = at::zeros({100}, kFirst);
  const c10::Stream stream = accelerator().getStream(kFirst);
  EXPECT_EQ(simdev_take_error(stream), nullptr);
  simdev_fail_copy(1);
  device.copy_(at::ones({100}), true);
  while (simdev_take_error(stream) == nullptr) std::this_thread::yield();
  EXPECT_NO_THROW(synchronize());
}

TEST_F(SimDevice, WrongShapesAreRefusedAtTheCall) {
  simdev_open(devices({1_MiB}));
  EXPECT_THROW(at::mm(at::ones({2, 3}, kFirst), at::ones({2, 3}, kFirst)), c10::Error);
}

TEST_F(SimDevice, HostTensorsAndOtherDevicesAreRefusedInOperators) {
  simdev_open(devices({1_MiB, 1_MiB}));
  const Tensor x = at::ones({3}, kFirst);
  EXPECT_THROW(x.add_(at::ones({3})), c10::Error);
  EXPECT_THROW(x.add_(at::ones({3}, kSecond)), c10::Error);
  EXPECT_NO_THROW(x.add_(at::scalar_tensor(1.0)));
  synchronize();
}

// --- what waits ---------------------------------------------------------------------------------

TEST_F(SimDevice, AnOperatorThatDrainsIsCountedByName) {
  simdev_open(devices({1_MiB}));
  const Tensor x = at::ones({8}, kFirst);
  EXPECT_EQ(x.nonzero().size(0), 8);
  EXPECT_EQ(x.sum().item<float>(), 8);
  const auto drains = simdev_stats(0).drains;
  EXPECT_EQ(drains,
            (std::map<std::string, long>{{"aten::_local_scalar_dense", 1}, {"aten::nonzero", 1}}));
}

TEST_F(SimDevice, StrictModeNamesTheOperatorThatWouldDrain) {
  SimOptions options = devices({1_MiB});
  options.strict = true;
  simdev_open(options);
  const Tensor x = at::ones({8}, kFirst);
  EXPECT_NE(error_of([&] { x.nonzero(); }).find("aten::nonzero would drain"), std::string::npos);
  EXPECT_NE(error_of([&] { x.sum().item(); }).find("_local_scalar_dense would drain"),
            std::string::npos);
  EXPECT_EQ(x.sum().cpu().item<float>(), 8) << "a blocking copy is an explicit wait";
}

TEST_F(SimDevice, HostSynchronisationsAreCounted) {
  simdev_open(devices({1_MiB}));
  const Tensor device = at::zeros({100}, kFirst);
  device.copy_(at::ones({100}), true);
  EXPECT_EQ(simdev_stats(0).host_syncs, 0);
  device.copy_(at::ones({100}));
  c10::Event event(kSim);
  event.record(accelerator().getStream(kFirst));
  event.synchronize();
  synchronize();
  EXPECT_EQ(simdev_stats(0).host_syncs, 3);
  simdev_reset_stats();
  EXPECT_EQ(simdev_stats(0).host_syncs, 0);
}

TEST_F(SimDevice, EventsMeasureTime) {
  simdev_open(throttled(1));
  const Tensor device = bytes_on(kFirst, {30'000});
  const c10::Stream stream = accelerator().getStream(kFirst);
  c10::Event before(kSim, c10::EventFlag::BACKEND_DEFAULT);
  c10::Event after(kSim, c10::EventFlag::BACKEND_DEFAULT);
  before.record(stream);
  device.copy_(at::ones({30'000}, at::kByte), true);
  after.record(stream);
  after.synchronize();
  EXPECT_GE(before.elapsedTime(after), 30.0);
}

// A time that is of another recording, or of none, would be a wrong one: CUDA tells none either.
TEST_F(SimDevice, AnEventHasATimeOnlyWhenItsLatestRecordingIsDone) {
  simdev_open(throttled(1));
  const Tensor device = bytes_on(kFirst, {30'000});
  const c10::Stream stream = accelerator().getStream(kFirst);
  c10::Event before(kSim, c10::EventFlag::BACKEND_DEFAULT);
  c10::Event after(kSim, c10::EventFlag::BACKEND_DEFAULT);
  before.record(stream);
  EXPECT_THROW(before.elapsedTime(after), c10::Error);  // never recorded
  after.record(stream);
  after.synchronize();
  EXPECT_GE(before.elapsedTime(after), 0.0);
  device.copy_(at::ones({30'000}, at::kByte), true);
  after.record(stream);  // again, behind a copy of 30 ms
  EXPECT_THROW(before.elapsedTime(after), c10::Error);
  after.synchronize();
  EXPECT_GE(before.elapsedTime(after), 30.0);
}

TEST_F(SimDevice, KernelsUseTheThreadsOfTheDevice) {
  SimOptions options = devices({64_MiB, 64_MiB});
  options.devices[1].threads = 2;
  simdev_open(options);
  const Tensor x = at::randn({512, 512});
  const auto product = [&](c10::Device device) {
    const Tensor y = x.to(device);
    return at::mm(y, y).cpu();
  };
  EXPECT_TRUE(at::equal(product(kFirst), at::mm(x, x)));
  EXPECT_TRUE(at::allclose(product(kSecond), at::mm(x, x), 1e-4, 1e-4));
  EXPECT_EQ(at::get_num_threads(), 1) << "the caller's own number is left alone";
}

}  // namespace
}  // namespace ferry
