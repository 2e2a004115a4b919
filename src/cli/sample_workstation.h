// A made-up box with GPUs, for tests of what examines one.
#pragma once

#include <span>
#include <string>

#include "cli/examination.h"
#include "spec/fake_box.h"

namespace ferry {

/// Two GPUs and a drive under one root complex, a third GPU under another.
struct Workstation {
  explicit Workstation(const std::string& name) : box(name) {
    box.write("sys/devices/system/cpu/online", "0-15");
    box.pci("pci0000:3a/0000:3a:00.0/0000:3b:00.0", FakeBox::gpu());
    box.pci("pci0000:3a/0000:3a:00.0/0000:3c:00.0", FakeBox::gpu());
    box.pci("pci0000:3a/0000:3a:00.0", {"0x060400", "0x8086", "8.0 GT/s PCIe", "16"});
    box.pci(kDrive, FakeBox::nvme());
    box.drive(kDrive, "nvme0n1", "259:0");
    box.pci("pci0000:ae/0000:af:00.0", {"0x030200", "0x10de", "8.0 GT/s PCIe", "16"});
    box.write("sys/bus/pci/devices/0000:3b:00.0/numa_node", "0");
    box.write("sys/bus/pci/devices/0000:3c:00.0/numa_node", "0");
    box.write("sys/bus/pci/devices/0000:af:00.0/numa_node", "-1");
    probes.root = box.path();
    probes.cores = 8;
    probes.gpus = {
        {0, 24_GiB, "0000:3b:00.0"}, {1, 24_GiB, "0000:3c:00.0"}, {2, 24_GiB, "0000:af:00.0"}};
    probes.memory_bandwidth = [](Bytes, int) { return 81.2345e9; };
    probes.update_rate = [](Bytes, int) { return 2.34567e9; };
    probes.copies = [](std::span<const std::string> devices) {
      return devices.size() == 1 ? CopyRates{12.34e9, 13.1e9} : CopyRates{13.14e9, 12.96e9};
    };
    probes.peers = [](std::span<const std::string> devices) {
      return peer_rates(devices.size(), 24.56e9);
    };
    probes.drive = [](const std::string& folder) {
      return DriveFacts{.folder = folder,
                        .free = 1000_GiB,
                        .major_number = 259,
                        .minor_number = 0,
                        .rates = DriveRates{6.5e9, 3.4e9}};
    };
    probes.precision = [](const MachineDevice&) { return faster_precision(1e12, 5e12); };
    probes.say = [](const std::string&) {};
  }

  /// Between every two of so many devices, each way.
  static std::vector<PeerRate> peer_rates(std::size_t devices, double rate) {
    std::vector<PeerRate> found;
    for (int from = 0; from < static_cast<int>(devices); ++from) {
      for (int to = 0; to < static_cast<int>(devices); ++to) {
        if (from != to) found.push_back({.from = from, .to = to, .rate = rate});
      }
    }
    return found;
  }

  static constexpr const char* kDrive = "pci0000:3a/0000:3a:02.0/0000:3d:00.0";
  FakeBox box;
  Probes probes;
};

}  // namespace ferry
