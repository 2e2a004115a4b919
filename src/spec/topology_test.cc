#include "spec/topology.h"

#include <gtest/gtest.h>

#include "spec/fake_box.h"

namespace ferry {
namespace {

TEST(Topology, DevicesAreListedByAddressWithTheirRootAndLink) {
  const FakeBox box("ferry_topology_roots");
  box.pci("pci0000:ae/0000:ae:00.0/0000:af:00.0", {"0x030200", "0x10de", "8.0 GT/s PCIe", "8"});
  box.pci("pci0000:3a/0000:3a:00.0/0000:3b:00.0", {"0x030000", "0x10de"});
  box.pci("pci0000:3a/0000:3a:02.0/0000:3c:00.0", {"0x010802", "0x144d", "16.0 GT/s PCIe", "4"});
  box.pci("pci0000:00/0000:00:1f.0", {"0x060100", "0x8086"});  // a bridge to old buses
  const auto devices = read_topology(box.path());
  ASSERT_EQ(devices.size(), 3u);
  EXPECT_EQ(devices[0].address, "0000:3b:00.0");
  EXPECT_EQ(devices[0].root, "pci0000:3a");
  EXPECT_EQ(devices[0].kind, PciKind::accelerator);
  EXPECT_EQ(devices[0].vendor, 0x10de);
  EXPECT_EQ(devices[0].link, (PciLink{16e9, 16}));
  ASSERT_EQ(devices[0].bridges.size(), 1u);
  EXPECT_EQ(devices[0].bridges[0].address, "0000:3a:00.0");
  EXPECT_EQ(devices[1].kind, PciKind::nvme);
  EXPECT_EQ(devices[1].root, "pci0000:3a");
  EXPECT_EQ(devices[1].link, (PciLink{16e9, 4}));
  EXPECT_EQ(devices[2].root, "pci0000:ae");
  EXPECT_EQ(devices[2].link, (PciLink{8e9, 8}));
  EXPECT_EQ(devices[2].best, (PciLink{16e9, 16}));
}

TEST(Topology, GraphicsOfMainboardsIsNoAccelerator) {
  const FakeBox box("ferry_topology_graphics");
  box.pci("pci0000:00/0000:00:02.0", {"0x030000", "0x1a03"});  // ASPEED
  box.pci("pci0000:00/0000:00:03.0", {"0x030000", "0x8086"});
  box.pci("pci0000:00/0000:00:04.0", {"0x030000", "0x1002"});
  box.pci("pci0000:00/0000:00:05.0", {"0x120000", "0x1da3"});
  const auto devices = read_topology(box.path());
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].address, "0000:00:04.0");
  EXPECT_EQ(devices[1].address, "0000:00:05.0");
}

TEST(Topology, AGuestWithoutLinksHasDevicesAllTheSame) {
  const FakeBox box("ferry_topology_guest");
  box.pci("pci0000:00/0000:00:07.0", {"0x030200", "0x10de", "Unknown", "0"});
  const auto devices = read_topology(box.path());
  ASSERT_EQ(devices.size(), 1u);
  EXPECT_FALSE(devices[0].link);
  EXPECT_TRUE(devices[0].bridges.empty());
}

TEST(Topology, WithoutSysfsNothingIsFound) {
  EXPECT_TRUE(read_topology("/nowhere").empty());
  EXPECT_TRUE(find_block_device("/nowhere", 259, 0).name.empty());
}

TEST(Topology, LinkRatesAreThoseOfTheirLineCode) {
  EXPECT_DOUBLE_EQ((PciLink{2.5e9, 1}).bytes_per_second(), 0.25e9);
  EXPECT_DOUBLE_EQ((PciLink{5e9, 16}).bytes_per_second(), 8e9);
  EXPECT_NEAR((PciLink{8e9, 16}).bytes_per_second(), 15.754e9, 1e6);
  EXPECT_NEAR((PciLink{16e9, 4}).bytes_per_second(), 7.877e9, 1e6);
  EXPECT_NEAR((PciLink{32e9, 16}).bytes_per_second(), 63.015e9, 1e6);
}

TEST(Topology, GpusBehindASwitchShareItsSlowestLink) {
  const FakeBox box("ferry_topology_switch");
  const std::string port = "pci0000:3a/0000:3a:00.0", up = port + "/0000:3b:00.0";
  box.pci(port, {"0x060400", "0x8086", "8.0 GT/s PCIe", "16"});
  box.pci(up, {"0x060400", "0x10b5", "8.0 GT/s PCIe", "8"});
  box.pci(up + "/0000:3c:00.0", {"0x060400", "0x10b5"});
  box.pci(up + "/0000:3c:01.0", {"0x060400", "0x10b5"});
  box.pci(up + "/0000:3c:00.0/0000:3d:00.0", FakeBox::gpu());
  box.pci(up + "/0000:3c:01.0/0000:3e:00.0", FakeBox::gpu());
  box.pci("pci0000:3a/0000:3a:02.0/0000:40:00.0", FakeBox::gpu());
  const auto devices = read_topology(box.path());
  ASSERT_EQ(devices.size(), 3u);
  const PciDevice* both[] = {&devices[0], &devices[1]};
  ASSERT_TRUE(shared_link(both));
  EXPECT_DOUBLE_EQ(*shared_link(both), (PciLink{8e9, 8}).bytes_per_second());
  const PciDevice* apart[] = {&devices[0], &devices[2]};
  EXPECT_FALSE(shared_link(apart));
  EXPECT_FALSE(shared_link(std::span(both).first(1)));
}

TEST(Topology, APartitionLiesOnItsDrive) {
  const FakeBox box("ferry_topology_partition");
  const std::string drive = "sys/devices/pci0000:5d/0000:5d:02.0/0000:5e:00.0/nvme/nvme0/nvme0n1";
  box.link("sys/dev/block/259:1", drive + "/nvme0n1p1");
  box.write(drive + "/nvme0n1p1/partition", "1");
  const BlockDevice found = find_block_device(box.path(), 259, 1);
  EXPECT_EQ(found.name, "nvme0n1");
  EXPECT_EQ(found.address, "0000:5e:00.0");
  EXPECT_EQ(found.root, "pci0000:5d");
}

TEST(Topology, AMappingOverOneDriveIsThatDriveAndOverTwoIsNot) {
  const FakeBox box("ferry_topology_mapping");
  const std::string place = "sys/devices/pci0000:5d/0000:5e:00.0/nvme/nvme0/nvme0n1";
  box.write(place + "/nvme0n1p2/partition", "2");
  box.link("sys/dev/block/253:0", "sys/devices/virtual/block/dm-0");
  box.link("sys/devices/virtual/block/dm-0/slaves/nvme0n1p2", place + "/nvme0n1p2");
  EXPECT_EQ(find_block_device(box.path(), 253, 0).name, "nvme0n1");
  box.link("sys/devices/virtual/block/dm-0/slaves/nvme1n1",
           "sys/devices/pci0000:5d/0000:5f:00.0/nvme/nvme1/nvme1n1");
  const BlockDevice striped = find_block_device(box.path(), 253, 0);
  EXPECT_EQ(striped.name, "dm-0");
  EXPECT_EQ(striped.root, "");
}

}  // namespace
}  // namespace ferry
