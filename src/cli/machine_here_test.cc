#include "cli/machine_here.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/sample_workstation.h"
#include "data/files.h"

namespace ferry {
namespace {

struct Listener : PhaseListener {
  void phase(const std::string& what) override { said.push_back(what); }
  std::string last() const { return said.empty() ? "" : said.back(); }
  std::vector<std::string> said;
};

/// A job's machine on the workstation, its free memory as it is now, and how often copies were
/// measured for it.
struct Asked {
  explicit Asked(const std::string& name) : here(name), file(here.box.path() / "kept/box.yaml") {
    here.box.write("proc/driver/nvidia/version", "NVRM version: NVIDIA Kernel Module  535.129.03");
    here.probes.copies = [this](std::span<const std::string> devices) {
      ++copies;
      return devices.size() == 1 ? CopyRates{12.34e9, 13.1e9} : CopyRates{13.14e9, 12.96e9};
    };
  }

  Machine machine() {
    const HostLimits limits = host_limits(here.probes.root, here.probes.cores);
    return with_rates_of_box(this_machine(limits, here.probes.gpus), here.probes, file, listener);
  }

  Workstation here;
  std::filesystem::path file;
  Listener listener;
  int copies = 0;
};

TEST(MachineHere, RatesAreMeasuredOnceAndMemoryIsAsItIsNow) {
  Asked asked("ferry_machine_here");
  const Machine measured = asked.machine();
  EXPECT_EQ(asked.copies, 4);  // three GPUs alone, two together
  EXPECT_EQ(measured.devices[0].up.bytes_per_second, 12.3e9);
  EXPECT_EQ(measured.devices[2].down.bytes_per_second, 13.1e9);
  EXPECT_EQ(measured.host.memory_bandwidth.bytes_per_second, 81.2e9);
  ASSERT_EQ(measured.roots.size(), 1u);
  EXPECT_EQ(measured.roots[0].up.bytes_per_second, 13.1e9);
  EXPECT_EQ(measured.devices[1].root, 0);
  EXPECT_EQ(asked.listener.last(), "rates of this box: measured, kept in " + asked.file.string());

  asked.here.probes.gpus[0].memory = 10_GiB;  // another program has taken some
  const Machine again = asked.machine();
  EXPECT_EQ(asked.copies, 4);
  EXPECT_EQ(again.devices[0].memory, 10_GiB - 640_MiB);
  EXPECT_EQ(again.devices[0].up, measured.devices[0].up);
  EXPECT_EQ(again.roots, measured.roots);
  EXPECT_EQ(again.host, measured.host);
  EXPECT_EQ(asked.listener.last(), "rates of this box: as measured before, " + asked.file.string());
}

TEST(MachineHere, TheKeptFileIsAMachineFile) {
  Asked asked("ferry_machine_here_file");
  const Machine machine = asked.machine();
  EXPECT_EQ(read_machine(asked.file).devices[0].up, machine.devices[0].up);
}

TEST(MachineHere, AnotherDriverOrADamagedFileIsMeasuredAgain) {
  Asked asked("ferry_machine_here_again");
  asked.machine();
  asked.here.box.write("proc/driver/nvidia/version", "NVRM version: NVIDIA Kernel Module  550.1");
  asked.machine();
  EXPECT_EQ(asked.copies, 8);
  write_file(asked.file, "# " + box_key(asked.here.probes) + "\nhost: {cores: many}\n");
  asked.machine();
  EXPECT_EQ(asked.copies, 12);
  asked.machine();
  EXPECT_EQ(asked.copies, 12);
}

TEST(MachineHere, WithoutACacheItIsMeasuredEachTime) {
  Asked asked("ferry_machine_here_no_cache");
  asked.file = asked.here.box.path() / "proc/loadavg/box.yaml";  // no folder
  asked.here.box.write("proc/loadavg", "0.0 0.0 0.0 1/100 1");
  asked.machine();
  const Machine machine = asked.machine();
  EXPECT_EQ(asked.copies, 8);
  EXPECT_EQ(machine.devices[0].up.bytes_per_second, 12.3e9);
  EXPECT_EQ(asked.listener.last(),
            "rates of this box: measured, not kept: no cache can be written");
}

TEST(MachineHere, SimulatedDevicesStayAsTheyAre) {
  Asked asked("ferry_machine_here_simulated");
  asked.here.probes.gpus.clear();
  const Machine machine = asked.machine();
  EXPECT_EQ(machine, this_machine(host_limits(asked.here.probes.root, 8), {}));
  EXPECT_FALSE(std::filesystem::exists(asked.file));
}

}  // namespace
}  // namespace ferry
