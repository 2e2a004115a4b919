// What a job runs on, as data: devices and their links, root complexes, host and drives. A machine
// file may describe a box that is not here. Text form: docs/formats/machine.md.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "spec/origin.h"

namespace ferry {

struct HostLimits;  // spec/host_limits.h

/// A speed of transfer. Nothing known or nothing to hold back: 0.
struct Rate {
  double bytes_per_second = 0;

  /// False when transfers are immediate, as those of an unthrottled simulated device.
  bool limited() const { return bytes_per_second > 0; }
  bool operator==(const Rate&) const = default;
};

enum class DeviceKind { sim, cuda };

/// One accelerator, or one of several logical ones that share it: same_hardware(). They share its
/// links and what it computes, and each has memory of its own there.
struct MachineDevice {
  std::string name;  // "gpu0": the place in plans
  DeviceKind kind = DeviceKind::sim;
  int index = 0;  // the k of cuda:k or sim:k
  Bytes memory = {};
  int threads = 0;             // of one sim kernel, at least 1; 0 for cuda
  double flops_fp32 = 0;       // per second; 0: unknown
  double flops_bf16 = 0;       // per second; 0: unknown
  Rate memory_bandwidth = {};  // of the device's own memory
  Rate up = {};                // host to device
  Rate down = {};              // device to host
  /// Straight to or from another device, per direction; not limited: through the host.
  Rate p2p = {};
  Micros latency = {};           // of one copy, either way
  bool copies_in_turn = false;   // of one direction; else they share the link. Of cuda only
  std::optional<int> root = {};  // indexes Machine::roots; none: a link of its own
  Origin origin = {};

  bool operator==(const MachineDevice&) const = default;
};

/// A root complex or switch: what its devices and drives share in each direction.
struct Root {
  std::string name;  // "root0"
  Rate up;           // host to devices
  Rate down;         // devices to host

  bool operator==(const Root&) const = default;
};

struct Host {
  int cores = 0;
  Bytes memory;
  bool shared = false;  // simulated devices and ferry itself take their memory of it too
  Rate memory_bandwidth;
  double update_rate = 0;  // parameters per second of the CPU optimizer; 0: unknown
  Origin origin;

  bool operator==(const Host&) const = default;
};

/// One NVMe drive.
struct Drive {
  std::string name = {};  // "ssd0"
  std::string path = {};  // a directory on it; empty: not here
  Bytes capacity = {};
  Rate read = {};
  Rate write = {};
  bool duplex = false;                  // reads and writes do not share one rate
  bool held = false;                    // a run takes no more of it than these rates
  double cores = 0;                     // that others lose while it moves at its rates
  std::optional<Bytes> endurance = {};  // that may be written in its life; none: unknown
  std::optional<int> root = {};         // indexes Machine::roots

  bool operator==(const Drive&) const = default;
};

/// Names are unique over devices, roots and drives; there is at least one device.
struct Machine {
  std::string name = {};
  Host host = {};
  std::vector<MachineDevice> devices = {};
  std::vector<Root> roots = {};
  std::vector<Drive> drives = {};
  Origin source = {};  // the file, or "this machine"

  bool operator==(const Machine&) const = default;
};

/// Reads a machine file. Throws UserError with file and line, what was expected and found.
Machine read_machine(const std::string& path);

/// The same from text; `source` stands for the file in messages.
Machine parse_machine(const std::string& text, const std::string& source);

/// One CUDA device as the caller's back end reports it.
struct FoundGpu {
  int index = 0;
  Bytes memory;                  // free now
  std::string pci_address = {};  // "0000:3b:00.0", as in topology.h; empty: unknown
};

/// Of a CUDA device's free memory what is left for what a desktop and other programs take
/// meanwhile, and for what lies beside tensors where the driver does not say how much that is (else
/// measured profiles count it): a sixteenth, at most 1 GiB.
Bytes left_for_cuda(Bytes free);

/// As its driver calls it; empty where that does not tell.
std::string gpu_name(const FoundGpu& gpu);

/// This box: the cores and bytes that affinity, cgroups (v1 and v2) and other programs leave us.
/// A GPU has what is free there but for left_for_cuda(). Without GPUs the one device is simulated:
/// all cores, all host memory, nothing throttled. Throws ResourceError when the system does not say
/// how much memory is free.
Machine this_machine(const std::vector<FoundGpu>& gpus = {});

/// The same for limits that are known already.
Machine this_machine(const HostLimits& limits, const std::vector<FoundGpu>& gpus);

/// How many of the devices are simulated.
int simulated_devices(const Machine& machine);

/// Whether both are on one accelerator: of equal kind and index.
bool same_hardware(const MachineDevice& one, const MachineDevice& other);

/// "cuda0", "sim2".
std::string hardware_name(const MachineDevice& device);

/// Whether several devices of the machine are on the accelerator of this one.
bool is_shared(const Machine& machine, const MachineDevice& device);

/// parse_machine() reads it back to an equal Machine.
std::string to_yaml(const Machine& machine);

/// The tables of docs/formats/machine.md.
std::string machine_reference();

/// "sim", "cuda".
std::string to_string(DeviceKind kind);

}  // namespace ferry
