#include "spec/topology.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string_view>
#include <system_error>

#include "spec/kernel_file.h"
#include "spec/quantity.h"

namespace ferry {
namespace {

namespace fs = std::filesystem;

constexpr int kNvidia = 0x10de;
constexpr int kAmd = 0x1002;
// Class codes of the PCI Code and ID Assignment Specification, without the programming interface.
constexpr int kVga = 0x0300, k3d = 0x0302, kProcessingAccelerator = 0x1200, kNvme = 0x0108;

constexpr int kDeepestMapping = 8;  // LVM over encryption over ...; sysfs has no cycles

/// "0x10de" -> 0x10de; 0 when it is not that.
int read_hexadecimal(const fs::path& path) {
  const std::string line = first_line(path);
  int value = 0;
  if (!line.starts_with("0x")) return 0;
  std::from_chars(line.data() + 2, line.data() + line.size(), value, 16);
  return value;
}

/// "16.0 GT/s PCIe" and "16"; older kernels write "8 GT/s". Guests write "Unknown" or 0 lanes.
std::optional<PciLink> read_link(const fs::path& device, const std::string& which) {
  const std::string speed = first_line(device / (which + "_link_speed"));
  const auto transfers = parse_real(std::string_view(speed).substr(0, speed.find(' ')));
  const auto lanes = parse_whole(first_line(device / (which + "_link_width")));
  if (!transfers || !lanes || *transfers <= 0 || *lanes < 1 || *lanes > 32) return std::nullopt;
  return PciLink{*transfers * 1e9, static_cast<int>(*lanes)};
}

/// "0000:3b:00.0"
bool is_address(std::string_view name) {
  constexpr std::string_view kForm = "xxxx:xx:xx.x";
  return name.size() == kForm.size() &&
         std::equal(name.begin(), name.end(), kForm.begin(), [](char c, char form) {
           const bool digit = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
           return form == 'x' ? digit : c == form;
         });
}

/// "pci0000:3a"
bool is_root(std::string_view name) {
  return name.starts_with("pci") && name.find(':') != std::string_view::npos;
}

/// A device's place in /sys/devices: .../pci0000:3a/0000:3a:00.0/0000:3b:00.0/...
struct Chain {
  std::string root;
  std::vector<fs::path> functions;  // root port first, the device's function last
};

Chain chain_of(const fs::path& device) {
  Chain chain;
  fs::path path;
  for (const fs::path& part : device) {
    path /= part;
    if (is_root(part.string())) {
      chain = {part.string(), {}};
    } else if (!chain.root.empty() && is_address(part.string())) {
      chain.functions.push_back(path);
    }
  }
  return chain;
}

std::optional<PciKind> kind_of(int class_code, int vendor) {
  switch (class_code >> 8) {
    case kNvme:
      return PciKind::nvme;
    case k3d:
    case kProcessingAccelerator:
      return PciKind::accelerator;
    case kVga:
      if (vendor == kNvidia || vendor == kAmd) return PciKind::accelerator;
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

/// The one drive below a mapped device, or nothing.
std::optional<fs::path> only_slave(const fs::path& block) {
  std::error_code error;
  std::optional<fs::path> found;
  for (const auto& entry : fs::directory_iterator(block / "slaves", error)) {
    if (found) return std::nullopt;
    found = fs::canonical(entry.path(), error);
  }
  return found;
}

}  // namespace

double PciLink::bytes_per_second() const {
  // 8b/10b up to 5 GT/s; 128b/130b up to 32 GT/s; from 64 GT/s on, flits of 242 of 256 bytes.
  const double kept = transfers_per_second <= 5e9    ? 0.8
                      : transfers_per_second <= 32e9 ? 128.0 / 130.0
                                                     : 242.0 / 256.0;
  return transfers_per_second * lanes / 8 * kept;
}

std::vector<PciDevice> read_topology(const fs::path& root) {
  std::vector<PciDevice> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root / "sys/bus/pci/devices", error)) {
    const fs::path path = fs::canonical(entry.path(), error);
    if (error) continue;  // unplugged while we look
    const int vendor = read_hexadecimal(path / "vendor");
    const auto kind = kind_of(read_hexadecimal(path / "class"), vendor);
    const Chain chain = chain_of(path);
    if (!kind || chain.functions.empty()) continue;
    PciDevice device{.kind = *kind,
                     .address = chain.functions.back().filename().string(),
                     .root = chain.root,
                     .bridges = {},
                     .vendor = vendor,
                     .link = read_link(path, "current"),
                     .best = read_link(path, "max")};
    for (std::size_t i = 0; i + 1 < chain.functions.size(); ++i) {
      device.bridges.push_back(
          {chain.functions[i].filename().string(), read_link(chain.functions[i], "current")});
    }
    found.push_back(std::move(device));
  }
  std::ranges::sort(found, {}, &PciDevice::address);
  return found;
}

std::optional<double> shared_link(std::span<const PciDevice* const> devices) {
  if (devices.size() < 2) return std::nullopt;
  const PciDevice& first = *devices.front();
  std::optional<double> slowest;
  for (std::size_t depth = 0; depth < first.bridges.size(); ++depth) {
    const bool shared = std::ranges::all_of(devices, [&](const PciDevice* device) {
      return device->root == first.root && depth < device->bridges.size() &&
             device->bridges[depth].address == first.bridges[depth].address;
    });
    if (!shared) break;
    if (const auto& link = first.bridges[depth].link) {
      slowest = std::min(slowest.value_or(std::numeric_limits<double>::infinity()),
                         link->bytes_per_second());
    }
  }
  return slowest;
}

BlockDevice find_block_device(const fs::path& root, unsigned major_number, unsigned minor_number) {
  std::error_code error;
  fs::path block = fs::canonical(
      root / "sys/dev/block" / (std::to_string(major_number) + ":" + std::to_string(minor_number)),
      error);
  if (error) return {};
  for (int depth = 0; depth < kDeepestMapping; ++depth) {
    if (fs::exists(block / "partition", error)) block = block.parent_path();
    const auto below = only_slave(block);
    if (!below) break;
    block = *below;
  }
  BlockDevice found{.name = block.filename().string(), .address = {}, .root = {}};
  const Chain chain = chain_of(block);
  if (!chain.functions.empty()) {
    found.address = chain.functions.back().filename().string();
    found.root = chain.root;
  }
  return found;
}

}  // namespace ferry
