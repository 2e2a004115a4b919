#include "spec/topology.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace ferry {
namespace {

namespace fs = std::filesystem;

constexpr const char* kGpuClass = "0x030200";
constexpr const char* kNvmeClass = "0x010802";

// A made-up /sys.
class FakeSys {
 public:
  explicit FakeSys(const std::string& name) : path_(fs::temp_directory_path() / name) {
    fs::remove_all(path_);
    fs::create_directories(path_ / "sys/bus/pci/devices");
    fs::create_directories(path_ / "sys/dev/block");
  }
  ~FakeSys() { fs::remove_all(path_); }

  void write(const std::string& file, const std::string& text) const {
    fs::create_directories((path_ / file).parent_path());
    std::ofstream(path_ / file) << text << "\n";
  }

  void link(const std::string& from, const std::string& to) const {
    fs::create_directories((path_ / from).parent_path());
    fs::create_directories(path_ / to);
    fs::create_directory_symlink(fs::relative(path_ / to, (path_ / from).parent_path()),
                                 path_ / from);
  }

  /// `place` is the path below sys/devices.
  void pci(const std::string& place, const std::string& class_code, const std::string& vendor,
           const std::string& speed = "16.0 GT/s PCIe", const std::string& lanes = "16") const {
    const std::string folder = "sys/devices/" + place;
    link("sys/bus/pci/devices/" + fs::path(place).filename().string(), folder);
    write(folder + "/class", class_code);
    write(folder + "/vendor", vendor);
    write(folder + "/current_link_speed", speed);
    write(folder + "/current_link_width", lanes);
    write(folder + "/max_link_speed", "16.0 GT/s PCIe");
    write(folder + "/max_link_width", "16");
  }

  const fs::path& path() const { return path_; }

 private:
  const fs::path path_;
};

TEST(Topology, DevicesAreListedByAddressWithTheirRootAndLink) {
  const FakeSys sys("ferry_topology_roots");
  sys.pci("pci0000:ae/0000:ae:00.0/0000:af:00.0", kGpuClass, "0x10de", "8.0 GT/s PCIe", "8");
  sys.pci("pci0000:3a/0000:3a:00.0/0000:3b:00.0", "0x030000", "0x10de");
  sys.pci("pci0000:3a/0000:3a:02.0/0000:3c:00.0", kNvmeClass, "0x144d", "16.0 GT/s PCIe", "4");
  sys.pci("pci0000:00/0000:00:1f.0", "0x060100", "0x8086");  // a bridge to old buses
  const auto devices = read_topology(sys.path());
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
  const FakeSys sys("ferry_topology_graphics");
  sys.pci("pci0000:00/0000:00:02.0", "0x030000", "0x1a03");  // ASPEED
  sys.pci("pci0000:00/0000:00:03.0", "0x030000", "0x8086");
  sys.pci("pci0000:00/0000:00:04.0", "0x030000", "0x1002");
  sys.pci("pci0000:00/0000:00:05.0", "0x120000", "0x1da3");
  const auto devices = read_topology(sys.path());
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].address, "0000:00:04.0");
  EXPECT_EQ(devices[1].address, "0000:00:05.0");
}

TEST(Topology, AGuestWithoutLinksHasDevicesAllTheSame) {
  const FakeSys sys("ferry_topology_guest");
  sys.pci("pci0000:00/0000:00:07.0", kGpuClass, "0x10de", "Unknown", "0");
  const auto devices = read_topology(sys.path());
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
  const FakeSys sys("ferry_topology_switch");
  const std::string port = "pci0000:3a/0000:3a:00.0", up = port + "/0000:3b:00.0";
  sys.pci(port, "0x060400", "0x8086", "8.0 GT/s PCIe", "16");
  sys.pci(up, "0x060400", "0x10b5", "8.0 GT/s PCIe", "8");
  sys.pci(up + "/0000:3c:00.0", "0x060400", "0x10b5");
  sys.pci(up + "/0000:3c:01.0", "0x060400", "0x10b5");
  sys.pci(up + "/0000:3c:00.0/0000:3d:00.0", kGpuClass, "0x10de");
  sys.pci(up + "/0000:3c:01.0/0000:3e:00.0", kGpuClass, "0x10de");
  sys.pci("pci0000:3a/0000:3a:02.0/0000:40:00.0", kGpuClass, "0x10de");
  const auto devices = read_topology(sys.path());
  ASSERT_EQ(devices.size(), 3u);
  const PciDevice* both[] = {&devices[0], &devices[1]};
  ASSERT_TRUE(shared_link(both));
  EXPECT_DOUBLE_EQ(*shared_link(both), (PciLink{8e9, 8}).bytes_per_second());
  const PciDevice* apart[] = {&devices[0], &devices[2]};
  EXPECT_FALSE(shared_link(apart));
  EXPECT_FALSE(shared_link(std::span(both).first(1)));
}

TEST(Topology, APartitionLiesOnItsDrive) {
  const FakeSys sys("ferry_topology_partition");
  const std::string drive =
      "sys/devices/pci0000:5d/0000:5d:02.0/0000:5e:00.0/nvme/nvme0/nvme0n1";
  sys.link("sys/dev/block/259:1", drive + "/nvme0n1p1");
  sys.write(drive + "/nvme0n1p1/partition", "1");
  const BlockDevice found = find_block_device(sys.path(), 259, 1);
  EXPECT_EQ(found.name, "nvme0n1");
  EXPECT_EQ(found.address, "0000:5e:00.0");
  EXPECT_EQ(found.root, "pci0000:5d");
}

TEST(Topology, AMappingOverOneDriveIsThatDriveAndOverTwoIsNot) {
  const FakeSys sys("ferry_topology_mapping");
  const std::string place = "sys/devices/pci0000:5d/0000:5e:00.0/nvme/nvme0/nvme0n1";
  sys.write(place + "/nvme0n1p2/partition", "2");
  sys.link("sys/dev/block/253:0", "sys/devices/virtual/block/dm-0");
  sys.link("sys/devices/virtual/block/dm-0/slaves/nvme0n1p2", place + "/nvme0n1p2");
  EXPECT_EQ(find_block_device(sys.path(), 253, 0).name, "nvme0n1");
  sys.link("sys/devices/virtual/block/dm-0/slaves/nvme1n1",
           "sys/devices/pci0000:5d/0000:5f:00.0/nvme/nvme1/nvme1n1");
  const BlockDevice striped = find_block_device(sys.path(), 253, 0);
  EXPECT_EQ(striped.name, "dm-0");
  EXPECT_EQ(striped.root, "");
}

}  // namespace
}  // namespace ferry
