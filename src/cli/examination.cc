#include "cli/examination.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/error.h"
#include "spec/memory_nodes.h"
#include "spec/nearest.h"
#include "spec/quantity.h"
#include "spec/topology.h"

namespace ferry {
namespace {

constexpr Bytes kLeastWorkingSet = 256_MiB, kMostWorkingSet = 4_GiB;
constexpr Bytes kUnknownWorkingSet = 2_GiB;  // where the caches are unknown
constexpr int kCaches = 4;                   // a working set of so many caches is read from DRAM
constexpr double kSlower =
    0.95;  // of what a link could do: it was negotiated down, or shares lanes

/// To three digits: what a repetition of the measurement would agree on.
double rounded(double rate) {
  if (!(rate > 0)) return 0;
  const double unit = std::pow(10.0, std::floor(std::log10(rate)) - 2);
  return std::round(rate / unit) * unit;
}

std::string rate_text(double bytes_per_second) {
  return bytes_per_second > 0 ? quantity_text(bytes_per_second, rate_units()) : "not limited";
}

/// For people, where digits beyond the third only blur.
std::string short_rate(double bytes_per_second) { return rate_text(rounded(bytes_per_second)); }

std::string link_text(const PciLink& link) {
  return "PCIe " + real_text(link.transfers_per_second / 1e9) + " GT/s x" +
         std::to_string(link.lanes) + " (" + short_rate(link.bytes_per_second()) + ")";
}

/// Fills one Examination, part by part in the order of the report.
class Examiner {
 public:
  Examiner(const Probes& probes, const std::string& name)
      : probes_(probes), topology_(read_topology(probes.root)), totals_(host_totals(probes.root)) {
    const HostLimits limits = host_limits(probes.root, probes.cores);
    machine_ = this_machine(limits, probes.gpus);
    machine_.name = name;
    find_limits(limits);
  }

  Examination examine(std::span<const std::string> folders) {
    std::vector<DriveFacts> drives;
    for (const std::string& folder : folders) {  // first: what the user named may be wrong
      probes_.say("measuring the drive of " + folder);
      drives.push_back(probes_.drive(folder));
    }
    measure_host();
    for (std::size_t d = 0; d < machine_.devices.size(); ++d) examine_device(d);
    for (const DriveFacts& drive : drives) examine_drive(drive);
    hang_on_roots();
    take_p2p();
    list_the_rest();
    return std::move(result_);
  }

 private:
  // What hangs on a root complex: indexes into machine_.devices and machine_.drives.
  struct Members {
    std::vector<std::size_t> devices, drives;
  };

  void find(const std::string& part, const std::string& key, const std::string& value,
            const std::string& source) {
    result_.findings.push_back({part, key, value, source});
  }

  void warn(const std::string& what) { result_.warnings.push_back(what); }

  void find_limits(const HostLimits& limits) {
    find("host", "cores", std::to_string(limits.cores),
         limits.cores_limit + "; the box has " + std::to_string(totals_.cores));
    find("host", "memory", to_string(machine_.host.memory),
         limits.memory_limit + "; the box has " + to_string(totals_.memory));
    find("host", "shared", "true", "simulated devices and ferry itself take theirs of it too");
  }

  void measure_host() {
    Host& host = machine_.host;
    const Bytes wanted =
        totals_.cache > 0_B ? std::clamp(kCaches * totals_.cache, kLeastWorkingSet, kMostWorkingSet)
                            : kUnknownWorkingSet;
    const Bytes working_set =
        std::min(wanted, Bytes{std::max<std::int64_t>(host.memory.count / 8, 1)});
    if (totals_.load > 0.5 * host.cores) {
      warn("other programs keep the cores busy (load " + real_text(totals_.load) + " on " +
           std::to_string(host.cores) + "): measured rates are too low");
    }
    const std::string on = " over " + to_string(working_set) + ", " + std::to_string(host.cores) +
                           (host.cores == 1 ? " thread" : " threads");
    probes_.say("measuring memory and the optimizer");
    host.memory_bandwidth.bytes_per_second =
        rounded(probes_.memory_bandwidth(working_set, host.cores));
    find("host", "memory_bandwidth", rate_text(host.memory_bandwidth.bytes_per_second),
         "measured: reads and writes of a stream" + on);
    host.update_rate = rounded(probes_.update_rate(working_set, host.cores));
    find("host", "update_rate", quantity_text(host.update_rate, parameter_units()),
         "measured: AdamW with bf16 states" + on);
  }

  const PciDevice* pci_at(const std::string& address) const {
    const auto found = std::ranges::find(topology_, address, &PciDevice::address);
    return found == topology_.end() ? nullptr : &*found;
  }

  void examine_device(std::size_t d) {
    MachineDevice& device = machine_.devices[d];
    if (device.kind == DeviceKind::sim) {
      find(device.name, "kind", "sim", "no GPU that torch can use: simulated by the CPU");
      find_precision(device);
      return;
    }
    const std::string& address = probes_.gpus[d].pci_address;
    const PciDevice* pci = pci_at(address);
    find(device.name, "kind", "cuda:" + std::to_string(device.index),
         (address.empty() ? "PCI address unknown" : "PCI " + address) +
             (pci && pci->link ? ", " + link_text(*pci->link) : ""));
    if (const auto node = node_of_pci(probes_.root, address)) {
      find(device.name, "node", std::to_string(*node),
           "sysfs: the NUMA node that it hangs next to; a run's host memory lies there");
    }
    find(device.name, "memory", to_string(device.memory),
         "free now but for " + to_string(left_for_cuda(probes_.gpus[d].memory)) +
             " of CUDA's own, as torch says");
    find_precision(device);
    if (device.copies_in_turn) {
      find(device.name, "copies_in_turn", "true",
           "as an H200 was seen to copy each way; not measured");
    }
    examine_copies(d, pci ? pci->link : std::nullopt);
    if (!pci) {
      warn(device.name + " is not in sysfs: its root complex and link are unknown");
      return;
    }
    members_[pci->root].devices.push_back(d);
    pci_of_device_[d] = pci;
    compare_link(device.name, *pci);
  }

  /// Where copies cannot be measured, `link` stands in for their rates.
  void examine_copies(std::size_t d, const std::optional<PciLink>& link) {
    MachineDevice& device = machine_.devices[d];
    probes_.say("measuring copies of " + device.name);
    try {
      const std::string name = cuda_name(d);
      const CopyRates rates = probes_.copies({&name, 1});
      device.up.bytes_per_second = rounded(rates.up);
      device.down.bytes_per_second = rounded(rates.down);
      find_rates(device.name, device.up, device.down, "measured: page-locked memory, alone");
    } catch (const ResourceError& error) {
      warn(error.what());
      if (link) {
        device.up.bytes_per_second = device.down.bytes_per_second =
            rounded(link->bytes_per_second());
      }
      find_rates(device.name, device.up, device.down,
                 link ? "not measured: the PCIe link" : "not measured");
    }
  }

  void find_precision(const MachineDevice& device) {
    probes_.say("measuring products of " + device.name);
    const PrecisionChoice choice = probes_.precision(device);
    find(device.name, "precision", to_string(choice.precision),
         "train.precision: auto means that, since " + choice.reason);
  }

  void find_rates(const std::string& part, Rate up, Rate down, const std::string& source) {
    find(part, "up", rate_text(up.bytes_per_second), source);
    find(part, "down", rate_text(down.bytes_per_second), source);
  }

  std::string cuda_name(std::size_t d) const {
    return "cuda:" + std::to_string(machine_.devices[d].index);
  }

  void compare_link(const std::string& part, const PciDevice& pci) {
    if (!pci.link || !pci.best) return;
    if (pci.link->bytes_per_second() >= kSlower * pci.best->bytes_per_second()) return;
    warn(part + " has " + link_text(*pci.link) + " and could do " + link_text(*pci.best) +
         ": another slot, or it saves power now");
  }

  void examine_drive(const DriveFacts& facts) {
    const BlockDevice block =
        find_block_device(probes_.root, facts.major_number, facts.minor_number);
    const PciDevice* pci = pci_at(block.address);
    const auto link = pci ? pci->link : std::nullopt;
    Drive drive{.name = "ssd" + std::to_string(machine_.drives.size()),
                .path = facts.folder.string(),
                .capacity = facts.free};
    find(drive.name, "path", drive.path,
         (block.name.empty() ? std::string("no drive of its own") : "drive " + block.name) +
             (block.address.empty() ? "" : ", PCI " + block.address) +
             (link ? ", " + link_text(*link) : ""));
    find(drive.name, "capacity", to_string(drive.capacity), "free now");
    take_rates(facts, link, drive);
    if (block.name.empty()) {
      warn(facts.folder.string() +
           " is on no drive of this box (a network, memory or overlay file system)");
    } else if (const auto [earlier, is_new] = drive_of_block_.emplace(block.name, drive.name);
               !is_new) {
      warn(drive.name + " and " + earlier->second + " are one drive (" + block.name +
           "): together they are no faster than one");
    }
    if (!block.root.empty()) members_[block.root].drives.push_back(machine_.drives.size());
    if (pci) {
      compare_link(drive.name, *pci);
      measured_drives_.push_back(block.address);
    }
    machine_.drives.push_back(drive);
  }

  void take_rates(const DriveFacts& facts, const std::optional<PciLink>& link, Drive& drive) {
    std::string source = "measured: sequential, past the page cache";
    if (facts.rates) {
      drive.read.bytes_per_second = rounded(facts.rates->read);
      drive.write.bytes_per_second = rounded(facts.rates->write);
      drive.cores = std::round(facts.rates->cores * 100) / 100;
      drive.duplex = facts.rates->duplex;
      if (link && facts.rates->read > link->bytes_per_second()) {
        warn(drive.name + " reads faster than its link: a cache answers");
      }
    } else {
      if (link) {
        drive.read.bytes_per_second = drive.write.bytes_per_second =
            rounded(link->bytes_per_second());
      }
      source = link ? "not measured: the PCIe link" : "not measured";
      warn(facts.folder.string() + ": the file system refuses direct I/O, so " + drive.name +
           " is not measured; write its rates into the file");
    }
    find(drive.name, "read", rate_text(drive.read.bytes_per_second), source);
    if (facts.rates) {
      find(drive.name, "cores", real_text(drive.cores), "measured: what threads that compute lose");
      find(drive.name, "duplex", drive.duplex ? "true" : "false",
           "measured: whether reads and writes hardly slow each other");
    }
    find(drive.name, "write", rate_text(drive.write.bytes_per_second),
         facts.rates ? source + "; may fall once a cache of the drive is full" : source);
  }

  void hang_on_roots() {
    for (const auto& [address, members] : members_) {
      if (members.devices.size() + members.drives.size() < 2) continue;
      const int index = static_cast<int>(machine_.roots.size());
      Root root{.name = "root" + std::to_string(index), .up = {}, .down = {}};
      std::vector<std::string> names;
      for (const std::size_t d : members.devices) {
        machine_.devices[d].root = index;
        names.push_back(machine_.devices[d].name);
      }
      for (const std::size_t d : members.drives) {
        machine_.drives[d].root = index;
        names.push_back(machine_.drives[d].name);
      }
      find(root.name, "name", address, joined(names));
      if (members.devices.size() > 1) take_shared_rate(members, root);
      machine_.roots.push_back(root);
    }
  }

  void take_shared_rate(const Members& members, Root& root) {
    std::vector<std::string> names;
    std::vector<const PciDevice*> devices;
    for (const std::size_t d : members.devices) {
      names.push_back(cuda_name(d));
      devices.push_back(pci_of_device_.at(d));
    }
    probes_.say("measuring copies of the GPUs under " + root.name + " together");
    try {
      const CopyRates rates = probes_.copies(names);
      root.up.bytes_per_second = rounded(rates.up);
      root.down.bytes_per_second = rounded(rates.down);
      find_rates(root.name, root.up, root.down, "measured: its GPUs at the same time");
    } catch (const ResourceError& error) {
      warn(error.what());
      const auto shared = shared_link(devices);
      root.up.bytes_per_second = root.down.bytes_per_second = rounded(shared.value_or(0));
      find_rates(root.name, root.up, root.down,
                 shared ? "not measured: the link that its GPUs share" : "not measured");
    }
  }

  /// A machine file has one rate per device, for all others: so all devices have p2p, or none.
  void take_p2p() {
    if (machine_.devices.size() < 2) return;
    probes_.say("measuring copies straight between the GPUs");
    std::vector<std::string> names;
    for (std::size_t d = 0; d < machine_.devices.size(); ++d) names.push_back(cuda_name(d));
    std::vector<double> least(names.size(), std::numeric_limits<double>::infinity());
    try {
      for (const PeerRate& peer : probes_.peers(names)) {
        if (const std::string why = why_not(peer); !why.empty()) {
          warn("no p2p: " + machine_.devices[peer.from].name + " to " +
               machine_.devices[peer.to].name + " " + why);
          return;
        }
        for (const int end : {peer.from, peer.to}) least[end] = std::min(least[end], peer.rate);
      }
    } catch (const ResourceError& error) {
      return warn(error.what());
    }
    for (std::size_t d = 0; d < names.size(); ++d) {
      Rate& p2p = machine_.devices[d].p2p;
      p2p.bytes_per_second = rounded(least[d]);
      find(machine_.devices[d].name, "p2p", rate_text(p2p.bytes_per_second),
           "measured: to and from the others, one pair at a time; the slowest");
    }
  }

  /// Why a way between two devices is of no use; empty where it is.
  std::string why_not(const PeerRate& peer) const {
    if (!peer.allowed) return "has no peer-to-peer, says the driver";
    if (!peer.whole) return "brings wrong bytes";
    const double down = machine_.devices[peer.from].down.bytes_per_second;
    const double up = machine_.devices[peer.to].up.bytes_per_second;
    const double staged = 1 / (1 / down + 1 / up);  // one copy after the other
    if (peer.rate > staged) return "";
    return "is no faster than through the host (" + short_rate(peer.rate) + ", " +
           short_rate(staged) + ")";
  }

  // What is there and was not measured or cannot be used.
  void list_the_rest() {
    for (const PciDevice& pci : topology_) {
      if (pci.kind == PciKind::nvme) {
        if (std::ranges::count(measured_drives_, pci.address) > 0) continue;
        find("-", "nvme", pci.address,
             (pci.link ? link_text(*pci.link) + "; " : "") + "--drive DIR measures it");
      } else if (std::ranges::find(probes_.gpus, pci.address, &FoundGpu::pci_address) ==
                 probes_.gpus.end()) {
        warn("PCI " + pci.address +
             " is an accelerator that torch cannot use here: no driver, hidden, or a torch "
             "without its back end");
      }
    }
    result_.machine = machine_;
  }

  const Probes& probes_;
  const std::vector<PciDevice> topology_;
  const HostTotals totals_;
  Machine machine_;
  Examination result_;
  std::map<std::string, Members> members_;                 // by the root complex's name
  std::map<std::size_t, const PciDevice*> pci_of_device_;  // into topology_
  std::map<std::string, std::string> drive_of_block_;      // "nvme0n1" -> "ssd0"
  std::vector<std::string> measured_drives_;               // PCI addresses
};

}  // namespace

Examination examine(const Probes& probes, const std::string& name,
                    std::span<const std::string> folders) {
  return Examiner(probes, name).examine(folders);
}

}  // namespace ferry
