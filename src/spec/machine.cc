#include "spec/machine.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>

#include "base/error.h"
#include "spec/drive_array.h"
#include "spec/drive_budget.h"
#include "spec/fields.h"

namespace ferry {
namespace {

constexpr int kMostDevices = 128;
constexpr double kMostThreads = 4096;

// What a file gives about its top level and host.
struct Top {
  const Node* devices = nullptr;
  const Node* roots = nullptr;
  const Node* drives = nullptr;
};

// One item of `devices`; `count` of them come out of it.
struct DeviceEntry {
  MachineDevice device;
  int count = 1;
  std::optional<int> index;
  std::optional<std::string> name = {}, root = {};
};

struct DriveEntry {
  Drive drive;
  int count = 1;
  std::optional<std::string> name = {}, path = {}, root = {};
};

std::vector<Field> machine_fields(Machine& machine, Top& top) {
  Host& host = machine.host;
  return with_bounded_amounts({
      {.name = "name", .member = &machine.name, .required = true, .meaning = "for people"},
      {.name = "host.cores",
       .member = &host.cores,
       .unit = "cores",
       .least = 1,
       .most = kMostThreads,
       .required = true,
       .meaning = "cores that ferry may use"},
      {.name = "host.memory",
       .member = &host.memory,
       .least = 1,
       .required = true,
       .meaning = "DRAM that ferry may use, at most"},
      {.name = "host.shared",
       .member = &host.shared,
       .meaning = "true: simulated devices and ferry itself take their memory of `host.memory` "
                  "too, whatever `memory` of such a device says"},
      {.name = "host.memory_bandwidth",
       .member = Real{&host.memory_bandwidth.bytes_per_second, Dimension::rate},
       .meaning = "DRAM reads and writes together; null: unknown"},
      {.name = "host.update_rate",
       .member = Real{&host.update_rate, Dimension::parameters},
       .meaning = "CPU optimizer on all cores; null: unknown"},
      {.name = "roots",
       .member = Nested{&top.roots},
       .meaning = "list of root complexes or switches, see below"},
      {.name = "devices",
       .member = Nested{&top.devices},
       .required = true,
       .meaning = "list of at least one device, see below"},
      {.name = "drives", .member = Nested{&top.drives}, .meaning = "list of drives, see below"},
  });
}

std::vector<Field> root_fields(Root& root) {
  return with_bounded_amounts({
      {.name = "name", .member = &root.name, .required = true, .meaning = "as devices name it"},
      {.name = "up",
       .member = Real{&root.up.bytes_per_second, Dimension::rate},
       .meaning = "host to devices, all of them together; null: not limited"},
      {.name = "down",
       .member = Real{&root.down.bytes_per_second, Dimension::rate},
       .meaning = "devices to host, all of them together; null: not limited"},
  });
}

std::vector<Field> device_fields(DeviceEntry& entry) {
  MachineDevice& device = entry.device;
  return with_bounded_amounts({
      {.name = "name",
       .member = &entry.name,
       .meaning = "letters, digits, - and _; null: gpu0, gpu1, ... in the order of the file"},
      {.name = "count",
       .member = &entry.count,
       .unit = "devices",
       .least = 1,
       .most = kMostDevices,
       .meaning = "so many equal devices"},
      {.name = "kind",
       .member = choice(device.kind, {DeviceKind::sim, DeviceKind::cuda}),
       .required = true,
       .meaning = "sim: simulated by the CPU; cuda: a GPU"},
      {.name = "index",
       .member = &entry.index,
       .most = kMostDevices - 1,
       .meaning =
           "k of cuda:k or sim:k; null: the next of its kind. Logical devices that share one "
           "accelerator have its k, and equal links"},
      {.name = "memory",
       .member = &device.memory,
       .least = 1,
       .required = true,
       .meaning = "device memory that ferry may use, at most"},
      {.name = "threads",
       .member = &device.threads,
       .unit = "threads",
       .most = kMostThreads,
       .meaning = "of a simulated device's kernels; 0: the host's cores"},
      {.name = "fp32",
       .member = Real{&device.flops_fp32, Dimension::flops},
       .meaning = "matrix products in fp32; null: unknown"},
      {.name = "bf16",
       .member = Real{&device.flops_bf16, Dimension::flops},
       .meaning = "matrix products in bf16; null: unknown"},
      {.name = "memory_bandwidth",
       .member = Real{&device.memory_bandwidth.bytes_per_second, Dimension::rate},
       .meaning = "of its own memory; null: unknown"},
      {.name = "up",
       .member = Real{&device.up.bytes_per_second, Dimension::rate},
       .meaning = "host to device, alone; null: not limited"},
      {.name = "down",
       .member = Real{&device.down.bytes_per_second, Dimension::rate},
       .meaning = "device to host, alone; null: not limited"},
      {.name = "p2p",
       .member = Real{&device.p2p.bytes_per_second, Dimension::rate},
       .meaning = "straight between devices, per device and direction; null: no peer-to-peer, "
                  "transfers go through the host"},
      {.name = "latency",
       .member = Real{&device.latency.count, Dimension::time},
       .meaning = "of one copy, either way"},
      {.name = "copies_in_turn",
       .member = &device.copies_in_turn,
       .meaning =
           "true: a GPU's copies of one direction go one at a time, and a queue goes on while "
           "it has one that may begin; false: they share the link"},
      {.name = "root",
       .member = &entry.root,
       .meaning = "name of the root it hangs on; null: a link of its own"},
  });
}

std::vector<Field> drive_fields(DriveEntry& entry) {
  Drive& drive = entry.drive;
  return with_bounded_amounts({
      {.name = "name",
       .member = &entry.name,
       .meaning = "letters, digits, - and _; null: ssd0, ssd1, ... in the order of the file"},
      {.name = "count",
       .member = &entry.count,
       .unit = "drives",
       .least = 1,
       .most = kMostDrives,
       .meaning = "so many equal drives"},
      {.name = "path", .member = &entry.path, .meaning = "a directory on it; null: not here"},
      {.name = "capacity",
       .member = &drive.capacity,
       .least = 1,
       .required = true,
       .meaning = "bytes that ferry may use, at most"},
      {.name = "read",
       .member = Real{&drive.read.bytes_per_second, Dimension::rate},
       .meaning = "sequential reads; null: not limited"},
      {.name = "write",
       .member = Real{&drive.write.bytes_per_second, Dimension::rate},
       .meaning = "sequential writes, sustained; null: not limited"},
      {.name = "duplex",
       .member = &drive.duplex,
       .meaning = "true: reads and writes do not slow each other"},
      {.name = "held",
       .member = &drive.held,
       .meaning = "true: a run takes no more of it than `read` and `write`"},
      {.name = "cores",
       .member = Real{&drive.cores},
       .least = 0,
       .most = 1024,
       .meaning = "processor cores that others lose while it moves at its rates"},
      {.name = "endurance",
       .member = &drive.endurance,
       .meaning = "bytes that may be written in its life; null: unknown"},
      {.name = "root",
       .member = &entry.root,
       .meaning = "name of the root it hangs on; null: a link of its own"},
  });
}

// Reads one machine file; knows the source for messages.
class MachineReader {
 public:
  explicit MachineReader(const std::string& source) : source_(source) {}

  Machine read(const std::string& text) {
    Top top;
    const Node document = parse_document(text, source_);
    const FieldLines lines = read_fields(document, machine_fields(machine_, top), source_);
    machine_.source.text = source_;
    machine_.host.origin.text = at(lines.at("host.memory"));
    for (const Node& node : items(top.roots)) add_root(node);
    for (const Node& node : items(top.devices)) add_devices(node);
    for (const Node& node : items(top.drives)) add_drives(node);
    if (machine_.devices.empty()) fail(lines.at("devices"), "'devices' is empty; expected one");
    return std::move(machine_);
  }

 private:
  std::string at(int line) const { return place_of(source_, line); }

  [[noreturn]] void fail(int line, const std::string& what) const {
    throw UserError(at(line) + ": " + what);
  }

  // Names become places and resources of plans, where other letters have a meaning.
  void take_name(const std::string& name, int line) {
    const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '-' || c == '_';
    });
    if (!plain) fail(line, "'" + name + "' is not a name; expected letters, digits, - and _");
    constexpr std::array<std::pair<const char*, const char*>, 4> kTaken = {
        {{"host", "the host's memory"},
         {"cores", "the host's cores"},
         {"dram", "the rate of the host's memory"},
         {"drives", "all drives together"}}};
    for (const auto& [taken, what] : kTaken) {
      if (name != taken) continue;
      fail(line, "'" + name + "' names " + what + " in plans; expected another name");
    }
    const auto [earlier, is_new] = names_.emplace(name, line);
    if (!is_new) {
      fail(line, "'" + name + "' is given twice; line " + std::to_string(earlier->second) +
                     " has it already");
    }
  }

  std::optional<int> root_index(const std::optional<std::string>& name, int line) const {
    if (!name) return std::nullopt;
    std::string known;
    for (std::size_t i = 0; i < machine_.roots.size(); ++i) {
      if (machine_.roots[i].name == *name) return static_cast<int>(i);
      known += (i ? ", " : "") + machine_.roots[i].name;
    }
    fail(line, "'root' names '" + *name +
                   "'; expected one of 'roots': " + (known.empty() ? "there are none" : known));
  }

  static int line_of(const FieldLines& lines, std::string_view key, const Node& node) {
    const auto found = lines.find(key);
    return found == lines.end() ? node.line : found->second;
  }

  void add_root(const Node& node) {
    Root root;
    const FieldLines lines = read_fields(node, root_fields(root), source_);
    take_name(root.name, lines.at("name"));
    machine_.roots.push_back(root);
  }

  void add_devices(const Node& node) {
    DeviceEntry entry;
    const FieldLines lines = read_fields(node, device_fields(entry), source_);
    MachineDevice device = entry.device;
    device.origin.text = at(lines.at("memory"));
    device.root = root_index(entry.root, line_of(lines, "root", node));
    if (device.kind == DeviceKind::sim && device.threads == 0) {
      device.threads = machine_.host.cores;
    } else if (device.kind == DeviceKind::cuda && device.threads != 0) {
      fail(lines.at("threads"), "'threads' is for devices of kind sim; leave it out");
    }
    if (device.kind == DeviceKind::sim && device.copies_in_turn) {
      fail(lines.at("copies_in_turn"),
           "'copies_in_turn' is for devices of kind cuda; leave it out");
    }
    check_count(lines, node, {entry.count, machine_.devices.size(), kMostDevices, "devices"});
    if (entry.name) refuse_with_count(lines, "name", entry.count);
    for (int i = 0; i < entry.count; ++i) {
      device.name = entry.name.value_or("gpu" + std::to_string(machine_.devices.size()));
      take_name(device.name, line_of(lines, "name", node));
      device.index = entry.index.value_or(next_index(device.kind));
      if (entry.index) check_shared(device, lines.at("index"));
      machine_.devices.push_back(device);
    }
  }

  int next_index(DeviceKind kind) const {
    int next = 0;
    for (const MachineDevice& device : machine_.devices) {
      if (device.kind == kind) next = std::max(next, device.index + 1);
    }
    return next;
  }

  // An accelerator has one link and one set of threads, whatever logical devices share it.
  void check_shared(const MachineDevice& device, int line) const {
    for (const MachineDevice& earlier : machine_.devices) {
      if (!same_hardware(earlier, device)) continue;
      MachineDevice expected = device;
      expected.up = earlier.up;
      expected.down = earlier.down;
      expected.p2p = earlier.p2p;
      expected.latency = earlier.latency;
      expected.copies_in_turn = earlier.copies_in_turn;
      expected.root = earlier.root;
      expected.threads = earlier.threads;
      if (expected == device) continue;
      fail(line, "'" + earlier.name + "' is on " + to_string(device.kind) + ":" +
                     std::to_string(device.index) +
                     " already, with other links or threads; expected equal `up`, `down`, `p2p`, "
                     "`latency`, `copies_in_turn`, `root` and `threads`, or another index");
    }
  }

  void add_drives(const Node& node) {
    DriveEntry entry;
    const FieldLines lines = read_fields(node, drive_fields(entry), source_);
    Drive drive = entry.drive;
    drive.path = entry.path.value_or("");
    drive.root = root_index(entry.root, line_of(lines, "root", node));
    if (drive.held && !has_rates(drive)) {
      fail(lines.at("held"), "'held' without both rates; expected `read` and `write`, too");
    }
    check_count(lines, node, {entry.count, machine_.drives.size(), kMostDrives, "drives"});
    if (entry.name) refuse_with_count(lines, "name", entry.count);
    if (entry.path) refuse_with_count(lines, "path", entry.count);
    for (int i = 0; i < entry.count; ++i) {
      drive.name = entry.name.value_or("ssd" + std::to_string(machine_.drives.size()));
      take_name(drive.name, line_of(lines, "name", node));
      machine_.drives.push_back(drive);
    }
  }

  struct Counted {
    int count;
    std::size_t before;
    int most;
    const char* things;
  };

  void check_count(const FieldLines& lines, const Node& node, const Counted& counted) const {
    if (static_cast<int>(counted.before) + counted.count <= counted.most) return;
    fail(line_of(lines, "count", node),
         "more than " + std::to_string(counted.most) + " " + counted.things);
  }

  // What only one thing can have does not go with several equal things.
  void refuse_with_count(const FieldLines& lines, const std::string& key, int count) const {
    if (count == 1) return;
    fail(lines.at(key), "'" + key + "' and 'count' exclude each other; expected one of them");
  }

  const std::string source_;
  Machine machine_;
  std::map<std::string, int> names_;  // name -> line
};

std::optional<std::string> root_name(const Machine& machine, const std::optional<int>& root) {
  if (!root) return std::nullopt;
  return machine.roots.at(static_cast<std::size_t>(*root)).name;
}

}  // namespace

Machine read_machine(const std::string& path) { return parse_machine(read_text_file(path), path); }

Machine parse_machine(const std::string& text, const std::string& source) {
  return MachineReader(source).read(text);
}

std::string to_yaml(const Machine& machine) {
  Machine copy = machine;
  Top top;
  std::string text = write_fields(machine_fields(copy, top), 0, false);
  if (!machine.roots.empty()) text += "roots:\n";
  for (Root& root : copy.roots) {
    text += as_list_item(write_fields(root_fields(root), 4, false));
  }
  text += "devices:\n";
  for (const MachineDevice& device : machine.devices) {
    DeviceEntry entry{.device = device,
                      .index = device.index,
                      .name = device.name,
                      .root = root_name(machine, device.root)};
    std::vector<Field> fields = device_fields(entry);
    std::erase_if(fields, [&](const Field& field) {
      return field.name == "count" || (field.name == "threads" && device.threads == 0);
    });
    text += as_list_item(write_fields(fields, 4, false));
  }
  if (!machine.drives.empty()) text += "drives:\n";
  for (const Drive& drive : machine.drives) {
    DriveEntry entry{.drive = drive, .name = drive.name, .root = root_name(machine, drive.root)};
    if (!drive.path.empty()) entry.path = drive.path;
    std::vector<Field> fields = drive_fields(entry);
    std::erase_if(fields, [](const Field& field) { return field.name == "count"; });
    text += as_list_item(write_fields(fields, 4, false));
  }
  return text;
}

std::string machine_reference() {
  Machine machine;
  Top top;
  Root root;
  DeviceEntry device;
  DriveEntry drive;
  return reference_table(machine_fields(machine, top)) + "\nEach of `roots`:\n\n" +
         reference_table(root_fields(root)) + "\nEach of `devices`:\n\n" +
         reference_table(device_fields(device)) + "\nEach of `drives`:\n\n" +
         reference_table(drive_fields(drive));
}

bool same_hardware(const MachineDevice& one, const MachineDevice& other) {
  return one.kind == other.kind && one.index == other.index;
}

std::string hardware_name(const MachineDevice& device) {
  return to_string(device.kind) + std::to_string(device.index);
}

bool is_shared(const Machine& machine, const MachineDevice& device) {
  return std::ranges::count_if(machine.devices, [&](const MachineDevice& other) {
           return same_hardware(device, other);
         }) > 1;
}

std::string to_string(DeviceKind kind) { return kind == DeviceKind::sim ? "sim" : "cuda"; }

}  // namespace ferry
