#include "spec/machine.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "spec/fake_box.h"
#include "spec/host_limits.h"

namespace ferry {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTwoByTwo = R"(name: two by two
host: {cores: 8, memory: 64 GiB, memory_bandwidth: 80 GB/s, update_rate: 2.5 G parameters/s}
roots:
  - {name: root0, up: 13 GB/s, down: 12.5 GB/s}
  - {name: root1}
devices:
  - {count: 2, kind: cuda, memory: 24 GiB, bf16: 80 TFLOP/s, up: 16 GB/s, down: 16 GB/s, p2p: 50 GB/s, root: root0}
  - count: 2
    kind: sim
    memory: 1.5 GiB
    latency: 12.5 us
    root: root1
drives:
  - {name: ssd0, path: /nvme0, capacity: 2 TB, read: 7 GB/s, write: 5 GB/s, endurance: 1200 TB, root: root1}
  - {count: 2, capacity: 1 TB, duplex: true}
)";

std::string error_of(const std::string& text) {
  try {
    parse_machine(text, "m.yaml");
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

std::string with_device(const std::string& device) {
  return "name: x\nhost: {cores: 2, memory: 1 GiB}\nroots: [{name: r}]\ndevices:\n  - " + device +
         "\n";
}

TEST(Machine, EveryKeyOfTheFileArrives) {
  const Machine machine = parse_machine(kTwoByTwo, "m.yaml");
  EXPECT_EQ(machine.name, "two by two");
  EXPECT_EQ(machine.host.cores, 8);
  EXPECT_EQ(machine.host.memory_bandwidth.bytes_per_second, 80e9);
  EXPECT_EQ(machine.host.update_rate, 2.5e9);
  EXPECT_EQ(machine.host.origin.text, "m.yaml:2");
  ASSERT_EQ(machine.roots.size(), 2u);
  EXPECT_EQ(machine.roots[0].down.bytes_per_second, 12.5e9);
  EXPECT_FALSE(machine.roots[1].up.limited());
  ASSERT_EQ(machine.devices.size(), 4u);
  EXPECT_EQ(machine.devices[1].name, "gpu1");
  EXPECT_EQ(machine.devices[1].kind, DeviceKind::cuda);
  EXPECT_EQ(machine.devices[1].index, 1);
  EXPECT_EQ(machine.devices[1].flops_bf16, 80e12);
  EXPECT_EQ(machine.devices[1].flops_fp32, 0);
  EXPECT_EQ(machine.devices[1].p2p.bytes_per_second, 50e9);
  EXPECT_EQ(machine.devices[1].root, 0);
  EXPECT_EQ(machine.devices[3].name, "gpu3");
  EXPECT_EQ(machine.devices[3].index, 1);  // the second sim device
  EXPECT_EQ(machine.devices[3].memory, 1536_MiB);
  EXPECT_EQ(machine.devices[3].latency, Micros{12.5});
  EXPECT_EQ(machine.devices[3].threads, 8);  // the host's cores
  EXPECT_EQ(machine.devices[3].origin.text, "m.yaml:10");
  EXPECT_FALSE(machine.devices[2].p2p.limited());
  ASSERT_EQ(machine.drives.size(), 3u);
  EXPECT_EQ(machine.drives[0].capacity.count, 2'000'000'000'000);
  EXPECT_EQ(machine.drives[0].root, 1);
  EXPECT_EQ(machine.drives[1].name, "ssd1");
  EXPECT_EQ(machine.drives[2].name, "ssd2");
  EXPECT_EQ(machine.drives[2].path, "");
  EXPECT_TRUE(machine.drives[2].duplex);
}

TEST(Machine, AWrittenMachineReadsBackEqual) {
  const Machine machine = parse_machine(kTwoByTwo, "m.yaml");
  EXPECT_EQ(parse_machine(to_yaml(machine), "again"), machine) << to_yaml(machine);
  const Machine here = this_machine();
  EXPECT_EQ(parse_machine(to_yaml(here), "again"), here) << to_yaml(here);
}

TEST(Machine, TheFilesThatComeWithFerryAreReadable) {
  int count = 0;
  for (const auto& file : fs::directory_iterator(FERRY_SOURCE_DIR "/machines")) {
    SCOPED_TRACE(file.path().string());
    const Machine machine = read_machine(file.path().string());
    EXPECT_EQ(machine.name, file.path().stem().string());
    EXPECT_EQ(parse_machine(to_yaml(machine), "again"), machine);
    ++count;
  }
  EXPECT_GE(count, 23);
}

TEST(Machine, OneGpuMayHostSeveralLogicalDevices) {
  const Machine machine =
      parse_machine(with_device("{count: 2, kind: cuda, index: 0, memory: 8 GiB}"), "m.yaml");
  EXPECT_EQ(machine.devices[0].index, 0);
  EXPECT_EQ(machine.devices[1].index, 0);
  EXPECT_NE(machine.devices[0].name, machine.devices[1].name);
}

TEST(Machine, DevicesOfOneKindAndIndexShareTheirHardware) {
  const Machine machine = parse_machine(
      "name: rehearsal\nhost: {cores: 2, memory: 1 GiB}\ndevices:\n"
      "  - {kind: cuda, memory: 8 GiB, index: 1, count: 2}\n"
      "  - {kind: cuda, memory: 8 GiB}\n"
      "  - {kind: sim, memory: 8 GiB, index: 1}\n",
      "m.yaml");
  const auto& devices = machine.devices;
  EXPECT_TRUE(same_hardware(devices[0], devices[1]));
  EXPECT_FALSE(same_hardware(devices[1], devices[2]));
  EXPECT_FALSE(same_hardware(devices[1], devices[3])) << "of another kind";
  EXPECT_TRUE(is_shared(machine, devices[1]));
  EXPECT_FALSE(is_shared(machine, devices[2]));
  EXPECT_EQ(hardware_name(devices[2]), "cuda2");
  EXPECT_EQ(parse_machine(to_yaml(machine), "m.yaml").devices[1].index, 1);
}

TEST(Machine, ErrorsNameFileAndLine) {
  EXPECT_EQ(error_of(with_device("{kind: sim, memroy: 1 GiB}")),
            "m.yaml:5: unknown key 'memroy'; did you mean 'memory'?");
  EXPECT_EQ(error_of(with_device("{kind: sim}")),
            "m.yaml:5: 'memory' is missing; expected a size of at least 1 B with a unit (B, KiB, "
            "MiB, GiB, TiB, KB, MB, GB, TB; G is GiB)");
  EXPECT_EQ(error_of(with_device("{kind: tpu, memory: 1 GiB}")),
            "m.yaml:5: 'kind' must be one of sim, cuda; found 'tpu'");
  EXPECT_EQ(error_of(with_device("{kind: cuda, memory: 1 GiB, up: 13}")),
            "m.yaml:5: 'up' must be a rate from 1 B/s to 1.0e+18 B/s with a unit (B/s, KB/s, "
            "KiB/s, MB/s, MiB/s, "
            "GB/s, GiB/s, TB/s, TiB/s), or null; found '13'");
  EXPECT_EQ(error_of(with_device("{kind: cuda, memory: 1 GiB, root: s}")),
            "m.yaml:5: 'root' names 's'; expected one of 'roots': r");
  EXPECT_EQ(error_of(with_device("{kind: cuda, memory: 1 GiB, name: r}")),
            "m.yaml:5: 'r' is given twice; line 3 has it already");
  EXPECT_EQ(error_of(with_device("{kind: cuda, memory: 1 GiB, name: a.b}")),
            "m.yaml:5: 'a.b' is not a name; expected letters, digits, - and _");
  for (const std::string taken : {"host", "cores", "dram", "drives"}) {
    const std::string said =
        error_of(with_device("{kind: cuda, memory: 1 GiB, name: " + taken + "}"));
    EXPECT_EQ(said.find("m.yaml:5: '" + taken + "' names "), 0U) << said;
  }
  EXPECT_EQ(error_of(with_device("{kind: cuda, memory: 1 GiB, threads: 2}")),
            "m.yaml:5: 'threads' is for devices of kind sim; leave it out");
  EXPECT_EQ(error_of(with_device("{kind: sim, memory: 1 GiB, copies_in_turn: true}")),
            "m.yaml:5: 'copies_in_turn' is for devices of kind cuda; leave it out");
  EXPECT_EQ(error_of(with_device("{kind: sim, memory: 1 GiB, index: 0, up: 1 GB/s}\n"
                                 "  - {kind: sim, memory: 1 GiB, index: 0, up: 2 GB/s}")),
            "m.yaml:6: 'gpu0' is on sim:0 already, with other links or threads; expected equal "
            "`up`, `down`, `p2p`, `latency`, `copies_in_turn`, `root` and `threads`, or another "
            "index");
  EXPECT_EQ(error_of(with_device("{kind: sim, memory: 1 GiB, up: 0 B/s}")).substr(0, 9),
            "m.yaml:5:");
  EXPECT_EQ(error_of("name: x\nhost: {cores: 2, memory: 1 GiB}\ndevices: []\n"),
            "m.yaml:3: 'devices' is empty; expected one");
  EXPECT_EQ(error_of("name: x\nhost: {cores: 2, memory: 1 GiB}\ndevices: 2\n"),
            "m.yaml:3: 'devices' must be a list; found '2'");
  EXPECT_EQ(error_of(""), "m.yaml:1: 'name' is missing; expected a text");
}

// Amounts that no machine has made plans whose times are beyond what a plan can say.
TEST(Machine, AmountsBeyondAnyMachineAreRefused) {
  for (const char* amount : {"latency: 1e300 s", "up: 1e-4 B/s", "down: 1e19 B/s",
                             "bf16: 1e-300 FLOP/s", "memory_bandwidth: 1e-9 B/s"}) {
    const std::string device = std::string("{kind: sim, memory: 1 GiB, ") + amount + "}";
    EXPECT_NE(error_of(with_device(device)).find("' must be a "), std::string::npos) << amount;
  }
  EXPECT_EQ(error_of(with_device("{count: 128, kind: sim, memory: 1 GiB}")), "no error");
  EXPECT_NE(error_of(with_device("{count: 129, kind: sim, memory: 1 GiB}")), "no error");
}

TEST(Machine, DrivesThatContradictThemselvesAreRefused) {
  const auto with_drive = [](const std::string& drive) {
    return with_device("{kind: sim, memory: 1 GiB}") + "drives:\n  - " + drive + "\n";
  };
  EXPECT_EQ(error_of(with_drive("{count: 2, name: a, capacity: 1 TB}")),
            "m.yaml:7: 'name' and 'count' exclude each other; expected one of them");
  EXPECT_EQ(error_of(with_drive("{count: 2, path: /a, capacity: 1 TB}")),
            "m.yaml:7: 'path' and 'count' exclude each other; expected one of them");
  EXPECT_EQ(error_of(with_drive("{capacity: 1 TB, read: 1 GB/s, held: true}")),
            "m.yaml:7: 'held' without both rates; expected `read` and `write`, too");
  EXPECT_EQ(error_of(with_drive("{name: r, capacity: 1 TB}")),
            "m.yaml:7: 'r' is given twice; line 3 has it already");
  EXPECT_EQ(error_of(with_drive("{count: 128, capacity: 1 TB}")), "no error");
  EXPECT_EQ(error_of(with_drive("{count: 128, capacity: 1 TB}\n  - {capacity: 1 TB}")),
            "m.yaml:8: more than 128 drives");
}

TEST(Machine, WithoutGpusThisMachineSimulatesOne) {
  const Machine machine = this_machine();
  ASSERT_EQ(machine.devices.size(), 1u);
  EXPECT_EQ(machine.devices[0].name, "gpu0");
  EXPECT_EQ(machine.devices[0].kind, DeviceKind::sim);
  EXPECT_EQ(machine.devices[0].threads, machine.host.cores);
  EXPECT_EQ(machine.devices[0].memory, machine.host.memory);
  EXPECT_FALSE(machine.devices[0].up.limited());
  EXPECT_GE(machine.host.cores, 1);
  EXPECT_GE(machine.host.memory, 1_MiB);
}

TEST(Machine, GpusThatWereFoundAreTheDevices) {
  const Machine machine =
      this_machine({{.index = 0, .memory = 8_GiB}, {.index = 3, .memory = 24_GiB + 5_B}});
  ASSERT_EQ(machine.devices.size(), 2u);
  EXPECT_EQ(machine.devices[1].name, "gpu1");
  EXPECT_EQ(machine.devices[1].kind, DeviceKind::cuda);
  EXPECT_EQ(machine.devices[1].index, 3);
  EXPECT_TRUE(machine.devices[1].copies_in_turn);
  EXPECT_EQ(machine.devices[0].memory, 8_GiB - 512_MiB) << "a sixteenth is CUDA's own";
  EXPECT_EQ(machine.devices[1].memory, 23_GiB) << "a GiB at most, and whole MiB";
}

TEST(Machine, TheDocumentedKeysAreTheOnesThatAreRead) {
  std::ifstream file(FERRY_SOURCE_DIR "/docs/formats/machine.md");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_NE(text.str().find(machine_reference()), std::string::npos)
      << "docs/formats/machine.md must hold these tables:\n"
      << machine_reference();
}

TEST(HostLimits, WithoutCgroupsAllThatIsAvailableIsOurs) {
  const FakeBox root("ferry_host_limits_plain");
  const HostLimits limits = host_limits(root.path(), 8);
  EXPECT_EQ(limits.cores, 8);
  EXPECT_EQ(limits.memory, 8000000_KiB);
  EXPECT_EQ(limits.cores_limit, "affinity");
  EXPECT_EQ(limits.memory_limit, "free memory");
}

TEST(HostLimits, CgroupsOfVersion2AndTheirParentsLimit) {
  const FakeBox root("ferry_host_limits_v2");
  root.write("proc/self/cgroup", "0::/a/b");
  root.write("sys/fs/cgroup/a/b/memory.max", "max");
  root.write("sys/fs/cgroup/a/b/memory.current", "100");
  root.write("sys/fs/cgroup/a/memory.max", "1048576000");
  root.write("sys/fs/cgroup/a/memory.current", "48576000");
  root.write("sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 8576000");
  root.write("sys/fs/cgroup/a/b/cpu.max", "max 100000");
  root.write("sys/fs/cgroup/a/cpu.max", "350000 100000");
  const HostLimits limits = host_limits(root.path(), 8);
  EXPECT_EQ(limits.cores, 3);
  EXPECT_EQ(limits.memory.count, 1048576000 - 40000000);
  EXPECT_EQ(limits.cores_limit, "/sys/fs/cgroup/a/cpu.max");
  EXPECT_EQ(limits.memory_limit, "/sys/fs/cgroup/a/memory.max");
}

TEST(HostLimits, CgroupsOfVersion1Limit) {
  const FakeBox root("ferry_host_limits_v1");
  root.write("proc/self/cgroup", "4:memory:/box\n2:cpu,cpuacct:/../out\n0::/");
  root.write("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "3000000000");
  root.write("sys/fs/cgroup/memory/box/memory.usage_in_bytes", "1000000000");
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  root.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1000000000");
  root.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "50000");
  root.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000");
  const HostLimits limits = host_limits(root.path(), 8);
  EXPECT_EQ(limits.cores, 1);  // half a core is one
  EXPECT_EQ(limits.memory.count, 2000000000);
  EXPECT_EQ(limits.cores_limit, "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us");
  EXPECT_EQ(limits.memory_limit, "/sys/fs/cgroup/memory/box/memory.limit_in_bytes");
}

TEST(HostLimits, TheBoxItselfMayHaveMore) {
  const FakeBox root("ferry_host_limits_totals");
  root.write("sys/devices/system/cpu/online", "0-3,8,10-11");
  for (const std::string core : {"0", "1", "2", "3"}) {
    const std::string cache = "sys/devices/system/cpu/cpu" + core + "/cache/index3/";
    root.write(cache + "size", "32768K");
    root.write(cache + "shared_cpu_list", core < "2" ? "0-1" : "2-3");
  }
  root.write("proc/loadavg", "1.25 0.80 0.50 2/345 6789");
  const HostTotals totals = host_totals(root.path());
  EXPECT_EQ(totals.cores, 7);
  EXPECT_EQ(totals.memory, 9000000_KiB);
  EXPECT_EQ(totals.cache, 64_MiB);
  EXPECT_EQ(totals.load, 1.25);
}

TEST(HostLimits, TheProcessorHasTheNameThatTheKernelGivesItsFirstCore) {
  const FakeBox root("ferry_processor_name");
  EXPECT_EQ(processor_name(root.path()), "unknown processor");
  root.write("proc/cpuinfo", "model\t\t: 1\nmodel name\t: AMD EPYC: 64 cores\nmodel name\t: other");
  EXPECT_EQ(processor_name(root.path()), "AMD EPYC: 64 cores");
}

TEST(HostLimits, WithoutMeminfoThereIsNoAnswer) {
  EXPECT_THROW(host_limits("/nowhere", 2), ResourceError);
}

}  // namespace
}  // namespace ferry
