#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "device/simulation.h"
#include "train/copy_rates.h"
#include "train/devices.h"
#include "train/update_rate.h"

namespace ferry {
namespace {

Machine throttled_pair() {
  return parse_machine(
      "name: pair\nhost: {cores: 2, memory: 1 GiB}\n"
      "roots:\n  - {name: root0, up: 400 MB/s, down: 400 MB/s}\n"
      "devices:\n  - {count: 2, kind: sim, memory: 64 MiB, threads: 1, up: 300 MB/s, "
      "down: 200 MB/s, root: root0}\n",
      "pair.yaml");
}

// A throttled link is never faster than it says, however busy the box is; a copy that it does not
// throttle would be ten times as fast. A busy box may make it slower, but not a hundred times: the
// median of rounds of 30 to 100 ms would be seconds.
void expect_rate(double rate, double link) {
  EXPECT_LT(rate, 1.1 * link);
  EXPECT_GT(rate, 0.01 * link);
}

TEST(CopyRates, AreThoseOfTheLinkAndTogetherThoseOfTheRoot) {
  const OpenDevices open(throttled_pair(), {});
  const CopyRates alone = measure_copies({open.names().data(), 1}, 2_MiB);
  expect_rate(alone.up, 300e6);
  expect_rate(alone.down, 200e6);
  const CopyRates together = measure_copies(open.names(), 2_MiB);
  expect_rate(together.up, 400e6);
  expect_rate(together.down, 400e6);
}

Machine pair_with_p2p() {
  Machine machine = throttled_pair();
  machine.devices[0].p2p = {500e6};
  machine.devices[1].p2p = {800e6};
  return machine;
}

TEST(PeerRates, AreThoseOfTheWayBetween) {
  const OpenDevices open(pair_with_p2p(), {});
  const std::vector<PeerRate> rates = measure_peers(open.names(), 2_MiB);
  ASSERT_EQ(rates.size(), 2U);
  for (const PeerRate& rate : rates) {
    EXPECT_NE(rate.from, rate.to);
    EXPECT_TRUE(rate.allowed);
    EXPECT_TRUE(rate.whole);
    expect_rate(rate.rate, 500e6);
  }
}

TEST(PeerRates, TellOfWrongBytes) {
  const OpenDevices open(pair_with_p2p(), {});
  simdev_spoil_copies(1, 0);
  for (const PeerRate& rate : measure_peers(open.names(), 64_KiB)) {
    EXPECT_EQ(rate.whole, rate.from == 0);
  }
}

TEST(CopyRates, ADeviceWithoutRoomIsTheMachinesError) {
  const OpenDevices open(throttled_pair(), {});
  EXPECT_THROW(measure_copies({open.names().data(), 1}, 128_MiB), ResourceError);
}

TEST(UpdateRate, IsMeasuredInBothPrecisions) {
  EXPECT_GT(measure_update_rate(Precision::bf16, 2, 1000), 0);
  EXPECT_GT(measure_update_rate(Precision::fp32, 1, 1000), 0);
}

TEST(UpdateRate, OfADeviceIsMeasuredInTheRoomThereIs) {
  const OpenDevices open(throttled_pair(), {});
  Device device = Device::open(open.names().front());
  EXPECT_GT(measure_device_update_rate(device, Precision::bf16, 1 << 16), 0);
  EXPECT_GT(measure_device_update_rate(device, Precision::fp32), 0);  // 64 MiB hold fewer
  const at::Tensor taken = device.slab(64_MiB - 64_KiB);
  EXPECT_EQ(measure_device_update_rate(device, Precision::fp32), 0);
}

}  // namespace
}  // namespace ferry
