// What hangs on this box's PCI Express: accelerators and NVMe drives, under which root complex and
// behind which link. Read from sysfs alone: nothing is opened, started or woken.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ferry {

/// A link as it was negotiated.
struct PciLink {
  double transfers_per_second = 0;  // of one lane: 16e9 for "16.0 GT/s PCIe"
  int lanes = 0;

  /// Per direction, without the line code and with the packets' headers: transfers reach a tenth to
  /// a fifth less.
  double bytes_per_second() const;
  bool operator==(const PciLink&) const = default;
};

/// A bridge between a root complex and a device: a root port, or a port of a switch.
struct PciBridge {
  std::string address;
  std::optional<PciLink> link;  // towards the device for a root port, unknown in most guests

  bool operator==(const PciBridge&) const = default;
};

enum class PciKind { accelerator, nvme };

struct PciDevice {
  PciKind kind = PciKind::accelerator;
  std::string address;             // "0000:3b:00.0"
  std::string root;                // "pci0000:3a": the root complex's host bridge
  std::vector<PciBridge> bridges;  // from the root port downwards
  int vendor = 0;                  // 0x10de: NVIDIA
  std::optional<PciLink> link;     // now; a device that saves power shows less than it reaches
  std::optional<PciLink> best;     // what the device could do in a better slot
};

/// The accelerators and NVMe drives in ROOT/sys/bus/pci, by address; `root` is "/" except in tests.
/// Graphics of mainboards and virtual machines is no accelerator. Empty without that folder.
std::vector<PciDevice> read_topology(const std::filesystem::path& root);

/// The slowest known link that all of `devices` share on their way to the root complex, per
/// direction, in bytes per second: that of a switch. Nothing when they share none, or it is
/// unknown.
std::optional<double> shared_link(std::span<const PciDevice* const> devices);

/// Where a file system's bytes lie.
struct BlockDevice {
  std::string name;     // "nvme0n1", "vda", "md0"; empty: not a drive of its own (tmpfs, overlay)
  std::string address;  // of the PCI function that carries it; empty: unknown
  std::string root;     // its root complex, as PciDevice::root; empty: unknown
};

/// The drive under the file system with device number MAJOR:MINOR, from ROOT/sys/dev/block. A
/// partition counts as its drive; a mapping over exactly one drive (LVM, encryption) as that drive.
BlockDevice find_block_device(const std::filesystem::path& root, unsigned major_number,
                              unsigned minor_number);

}  // namespace ferry
