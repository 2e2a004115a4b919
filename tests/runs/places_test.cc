// What a run takes of devices and of the host, on simulated devices: what each place is told to
// have held, and on which NUMA nodes the host's memory lies.
#include "train/places.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "exec/driver.h"
#include "spec/fake_box.h"
#include "training_sample.h"

namespace ferry {
namespace {

/// What a run says of its host memory on a box with memory on the nodes of `has_memory`, whose
/// devices hang next to `node`; and that it trains.
std::vector<std::string> said_on_nodes(const std::string& has_memory, const std::string& node) {
  const FakeBox box("ferry_places_nodes");
  const std::string address = "0000:3b:00.0";
  box.write("sys/devices/system/node/has_memory", has_memory);
  box.write("sys/bus/pci/devices/" + address + "/numa_node", node);
  const PlanQuestion asked = training_question(2);
  const Plan plan = planned(asked);
  Words words;
  Training training(asked, plan, /*checked=*/true, {.root = box.path()}, {.pci_address = address},
                    words);
  Losses watched(training.runner);
  drive(plan, {0, 2}, training.runner, watched);
  EXPECT_LT(watched.found.back(), watched.found.front());
  return words.said;
}

// This box has node 0, so the kernel refuses another; some containers may not choose at all.
TEST(Places, HostMemoryLiesNextToTheDevices) {
  const auto said = said_on_nodes("0-1", "0");
  ASSERT_EQ(said.size(), 1U);
  EXPECT_NE(said[0].find("NUMA node 0, where its devices hang"), std::string::npos) << said[0];
  EXPECT_TRUE(said_on_nodes("0-1", "-1").empty());
  EXPECT_TRUE(said_on_nodes("0", "0").empty());
}

TEST(Places, ANodeThatTheKernelRefusesIsSaidAndTrainingGoesOn) {
  const auto said = said_on_nodes("0,1023", "1023");
  ASSERT_EQ(said.size(), 1U);
  EXPECT_NE(said[0].find("where the kernel puts it, not on NUMA node 1023"), std::string::npos)
      << said[0];
}

/// What each device place of the plan held at most in two steps.
std::vector<Bytes> device_peaks(const PlanQuestion& asked, const Plan& plan,
                                const Conditions& conditions) {
  Training training(asked, plan, /*checked=*/false, {}, conditions);
  Losses watched(training.runner);
  drive(plan, {0, 2}, training.runner, watched);
  std::vector<Bytes> peaks;
  for (const PlaceId id : plan.places.ids()) {
    if (training.places[id].device) peaks.push_back(training.places.device_peak(id));
  }
  return peaks;
}

TEST(Places, LogicalDevicesHoldWhatDevicesOfTheirOwnWould) {
  PlanQuestion asked = tied_question("1f1b", 2);  // an embedding here, a head there
  const Plan plan = planned(asked);
  const auto own = device_peaks(asked, plan, {});
  ASSERT_EQ(own.size(), 2U);
  EXPECT_NE(own[0], own[1]);
  EXPECT_EQ(device_peaks(asked, plan, {.on_one_device = true}), own);
  // An accelerator with so much memory in all has room for both.
  const Bytes sum = own[0] + own[1];
  set_device_budgets(asked, {sum.count / kOpenDevices});
  EXPECT_EQ(device_peaks(asked, plan, {.on_one_device = true}), own);
}

TEST(Places, LogicalDevicesThatStreamHoldWhatDevicesOfTheirOwnWould) {
  const PlanQuestion asked = training_question(4);
  const Plan plan = planned(asked);
  EXPECT_EQ(device_peaks(asked, plan, {.on_one_device = true}), device_peaks(asked, plan, {}));
}

TEST(Places, WhatADeviceHeldBeforeARunIsNoPartOfItsPeak) {
  const PlanQuestion asked = training_question(1);
  const Plan plan = planned(asked);
  const OpenDevices devices = open_devices(64_MiB, /*checked=*/false);
  Device::open(devices.names().front()).slab(32_MiB).zero_();
  const Plan* const only = &plan;
  const Places places({&only, 1}, {&devices.names().front(), 1}, asked.machine);
  for (const PlaceId id : plan.places.ids()) {
    if (plan.places[id].kind != PlaceKind::device) continue;
    EXPECT_LE(places.device_peak(id), round_up(slots_end(plan, id), 512_B));
  }
}

}  // namespace
}  // namespace ferry
