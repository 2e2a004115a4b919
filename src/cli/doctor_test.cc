#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "cli/doctor_report.h"
#include "cli/examination.h"
#include "cli/sample_workstation.h"
#include "spec/drive_array.h"

namespace ferry {
namespace {

const std::vector<std::string> kNoFolders, kOneFolder = {"/nvme0/ferry"};

std::string found(const Examination& examination, const std::string& part, const std::string& key) {
  for (const Finding& finding : examination.findings) {
    if (finding.part == part && finding.key == key) return finding.value + " | " + finding.source;
  }
  return "not found";
}

bool warns(const Examination& examination, const std::string& of) {
  return std::ranges::any_of(examination.warnings, [&](const std::string& warning) {
    return warning.find(of) != std::string::npos;
  });
}

TEST(Doctor, FiguresAreMeasuredAndHungOnTheirRootComplex) {
  const Workstation here("ferry_doctor_workstation");
  const Examination examination = examine(here.probes, "workstation", kOneFolder);
  const Machine& machine = examination.machine;
  EXPECT_EQ(machine.name, "workstation");
  EXPECT_EQ(machine.host.cores, 8);
  EXPECT_EQ(machine.host.memory, 7812_MiB);  // whole MiB of 8000000 KiB
  EXPECT_EQ(machine.host.memory_bandwidth.bytes_per_second, 81.2e9);
  EXPECT_EQ(machine.host.update_rate, 2.35e9);
  ASSERT_EQ(machine.devices.size(), 3u);
  EXPECT_EQ(machine.devices[0].up.bytes_per_second, 12.3e9);
  EXPECT_EQ(machine.devices[0].down.bytes_per_second, 13.1e9);
  ASSERT_EQ(machine.roots.size(), 1u);  // the third GPU has the other to itself
  EXPECT_EQ(machine.roots[0].up.bytes_per_second, 13.1e9);
  EXPECT_EQ(machine.roots[0].down.bytes_per_second, 13e9);
  EXPECT_EQ(machine.devices[0].root, 0);
  EXPECT_EQ(machine.devices[1].root, 0);
  EXPECT_EQ(machine.devices[2].root, std::nullopt);
  ASSERT_EQ(machine.drives.size(), 1u);
  EXPECT_EQ(machine.drives[0].path, "/nvme0/ferry");
  EXPECT_EQ(machine.drives[0].read.bytes_per_second, 6.5e9);
  EXPECT_EQ(machine.drives[0].root, 0);
  EXPECT_FALSE(machine.drives[0].duplex);
  EXPECT_EQ(found(examination, "host", "cores"), "8 | affinity; the box has 16");
  EXPECT_EQ(found(examination, "gpu0", "kind"),
            "cuda:0 | PCI 0000:3b:00.0, PCIe 16 GT/s x16 (31.5 GB/s)");
  EXPECT_EQ(found(examination, "gpu0", "node"),
            "0 | sysfs: the NUMA node that it hangs next to; a run's host memory lies there");
  EXPECT_EQ(found(examination, "gpu2", "node"), "not found");  // the kernel does not know
  EXPECT_EQ(found(examination, "gpu0", "copies_in_turn"),
            "true | as an H200 was seen to copy each way; not measured");
  EXPECT_EQ(
      found(examination, "gpu0", "precision"),
      "fp32 | train.precision: auto means that, since products in bf16 take 5.0 times as long "
      "as in fp32 here");
  EXPECT_EQ(found(examination, "root0", "name"), "pci0000:3a | gpu0, gpu1, ssd0");
  EXPECT_TRUE(warns(examination, "gpu2 has PCIe 8 GT/s x16 (15.8 GB/s) and could do"));
  for (const MachineDevice& device : machine.devices) {
    EXPECT_EQ(device.p2p.bytes_per_second, 24.6e9);
  }
  EXPECT_EQ(found(examination, "gpu2", "p2p"),
            "24.6 GB/s | measured: to and from the others, one pair at a time; the slowest");
}

// A machine file cannot say that two of three devices have it.
TEST(Doctor, WithoutASoundAndFasterWayBetweenAnyTwoThereIsNoP2p) {
  Workstation here("ferry_doctor_p2p");
  PeerRate odd;
  here.probes.peers = [&](std::span<const std::string> devices) {
    std::vector<PeerRate> rates = Workstation::peer_rates(devices.size(), 24e9);
    odd.from = rates.back().from;
    odd.to = rates.back().to;
    rates.back() = odd;
    return rates;
  };
  const auto warned = [&](const std::string& of) {
    const Examination examination = examine(here.probes, "x", kNoFolders);
    for (const MachineDevice& device : examination.machine.devices) {
      EXPECT_FALSE(device.p2p.limited());
    }
    return warns(examination, of);
  };
  odd = {.rate = 6.3e9};  // two copies through the host, at 12.3 and 13.1 GB/s, take less
  EXPECT_TRUE(
      warned("no p2p: gpu2 to gpu1 is no faster than through the host (6.3 GB/s, 6.34 GB/s)"));
  odd = {.whole = false, .rate = 24e9};
  EXPECT_TRUE(warned("no p2p: gpu2 to gpu1 brings wrong bytes"));
  odd = {.allowed = false};
  EXPECT_TRUE(warned("no p2p: gpu2 to gpu1 has no peer-to-peer, says the driver"));
  here.probes.peers = [](std::span<const std::string>) -> std::vector<PeerRate> {
    throw ResourceError("cuda:1 is out of memory");
  };
  EXPECT_TRUE(warned("cuda:1 is out of memory"));
}

TEST(Doctor, TheWayBetweenTheSlowestTwoCounts) {
  Workstation here("ferry_doctor_p2p_slowest");
  here.probes.peers = [](std::span<const std::string> devices) {
    std::vector<PeerRate> rates = Workstation::peer_rates(devices.size(), 24e9);
    rates.front().rate = 20e9;  // gpu0 to gpu1
    return rates;
  };
  const Machine machine = examine(here.probes, "x", kNoFolders).machine;
  EXPECT_EQ(machine.devices[0].p2p.bytes_per_second, 20e9);
  EXPECT_EQ(machine.devices[1].p2p.bytes_per_second, 20e9);
  EXPECT_EQ(machine.devices[2].p2p.bytes_per_second, 24e9);
}

TEST(Doctor, ItsDrivesAreReadyToUse) {
  const Workstation here("ferry_doctor_drives");
  const Examination examination = examine(here.probes, "workstation", kOneFolder);
  const Machine read = parse_machine(examination_yaml(examination), "workstation.yaml");
  const DriveArray array = drive_array(read);
  EXPECT_EQ(array.count, 1);
  EXPECT_EQ(array.capacity, read.drives.front().capacity);
  EXPECT_FALSE(read.drives.front().path.empty());
}

TEST(Doctor, ACgroupThatLimitsIsNamed) {
  const Workstation here("ferry_doctor_cgroup");
  here.box.write("proc/self/cgroup", "0::/job");
  here.box.write("sys/fs/cgroup/job/memory.max", "2147483648");
  here.box.write("sys/fs/cgroup/job/memory.current", "0");
  here.box.write("sys/fs/cgroup/job/cpu.max", "300000 100000");
  const Examination examination = examine(here.probes, "x", kNoFolders);
  EXPECT_EQ(examination.machine.host.cores, 3);
  EXPECT_EQ(found(examination, "host", "cores"), "3 | /sys/fs/cgroup/job/cpu.max; the box has 16");
  EXPECT_EQ(found(examination, "host", "memory"),
            "2.0 GiB | /sys/fs/cgroup/job/memory.max; the box has 8.6 GiB");
}

TEST(Doctor, ABusyBoxIsMeasuredWithAWarningOverFourTimesItsCaches) {
  Workstation here("ferry_doctor_busy");
  here.box.write("proc/loadavg", "6.5 1.0 1.0 1/100 1");
  here.box.write("sys/devices/system/cpu/cpu0/cache/index3/size", "98304K");
  here.box.write("sys/devices/system/cpu/cpu0/cache/index3/shared_cpu_list", "0-15");
  Bytes working_set;
  here.probes.memory_bandwidth = [&](Bytes size, int threads) {
    working_set = size;
    EXPECT_EQ(threads, 8);
    return 1e9;
  };
  const Examination examination = examine(here.probes, "x", kNoFolders);
  EXPECT_EQ(working_set, 384_MiB);
  EXPECT_TRUE(warns(examination, "load 6.5 on 8"));
}

TEST(Doctor, LinksStandInForCopiesThatCannotBeMeasured) {
  Workstation here("ferry_doctor_links");
  here.probes.copies = [](std::span<const std::string>) -> CopyRates {
    throw ResourceError("no page can be locked");
  };
  const Examination examination = examine(here.probes, "x", kNoFolders);
  EXPECT_EQ(examination.machine.devices[0].up.bytes_per_second, 31.5e9);
  ASSERT_EQ(examination.machine.roots.size(), 1u);
  EXPECT_EQ(examination.machine.roots[0].down.bytes_per_second, 15.8e9);  // their switch
  EXPECT_EQ(found(examination, "root0", "up"),
            "15.8 GB/s | not measured: the link that its GPUs share");
  EXPECT_TRUE(warns(examination, "no page can be locked"));
}

TEST(Doctor, ADriveThatRefusesDirectIoHasTheRateOfItsLink) {
  Workstation here("ferry_doctor_indirect");
  here.probes.drive = [](const std::string& folder) {
    return DriveFacts{.folder = folder,
                      .free = 1_GiB,
                      .major_number = 259,
                      .minor_number = 0,
                      .rates = std::nullopt};
  };
  const Examination examination = examine(here.probes, "x", kOneFolder);
  EXPECT_EQ(examination.machine.drives[0].read.bytes_per_second, 7.88e9);
  EXPECT_TRUE(warns(examination, "refuses direct I/O"));
}

TEST(Doctor, TwoFoldersOnOneDriveAreNotTwoDrives) {
  const Workstation here("ferry_doctor_twice");
  const std::vector<std::string> folders = {"/a", "/b"};
  const Examination examination = examine(here.probes, "x", folders);
  EXPECT_EQ(examination.machine.drives.size(), 2u);
  EXPECT_TRUE(warns(examination, "ssd1 and ssd0 are one drive (nvme0n1)"));
}

TEST(Doctor, WhatIsThereAndNotUsedIsSaid) {
  Workstation here("ferry_doctor_rest");
  here.probes.gpus.clear();
  const Examination examination = examine(here.probes, "x", kNoFolders);
  ASSERT_EQ(examination.machine.devices.size(), 1u);
  EXPECT_EQ(examination.machine.devices[0].kind, DeviceKind::sim);
  EXPECT_FALSE(examination.machine.devices[0].up.limited());
  EXPECT_TRUE(warns(examination, "PCI 0000:3b:00.0 is an accelerator that torch cannot use"));
  EXPECT_EQ(found(examination, "-", "nvme"),
            "0000:3d:00.0 | PCIe 16 GT/s x4 (7.88 GB/s); --drive DIR measures it");
}

TEST(Doctor, TheFileReadsBackAndSaysWhereFiguresComeFrom) {
  const Workstation here("ferry_doctor_file");
  const Examination examination = examine(here.probes, "workstation", kOneFolder);
  const std::string text = examination_yaml(examination);
  EXPECT_EQ(parse_machine(text, "workstation.yaml"), examination.machine) << text;
  EXPECT_NE(text.find("  # measured: AdamW with bf16 states over 976.5 MiB, 8 threads\n"
                      "  update_rate: 2.35 G parameters/s\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("    # measured: its GPUs at the same time\n    up: 13.1 GB/s\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(text, examination_yaml(examine(here.probes, "workstation", kOneFolder)));
}

TEST(Doctor, TheReportKeepsTo100Columns) {
  const Workstation here("ferry_doctor_table");
  const std::vector<std::string> folders = {"/a/folder/with/a/rather/long/name/for/a/drive"};
  const std::string table = examination_table(examine(here.probes, "x", folders));
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
  EXPECT_NE(table.find("host   cores"), std::string::npos) << table;
  EXPECT_NE(table.find("warnings\n"), std::string::npos) << table;
}

TEST(Doctor, JsonHasTheMachineTheFindingsAndTheWarnings) {
  const Workstation here("ferry_doctor_json");
  const Examination examination = examine(here.probes, "x", kOneFolder);
  const auto json = nlohmann::json::parse(examination_json(examination));
  EXPECT_EQ(json["machine"]["host"]["cores"], 8);
  EXPECT_EQ(json["machine"]["devices"][0]["root"], "root0");
  EXPECT_EQ(json["machine"]["devices"][2]["root"], nullptr);
  EXPECT_EQ(json["machine"]["drives"][0]["capacity"], (1000_GiB).count);
  EXPECT_EQ(json["findings"].size(), examination.findings.size());
  EXPECT_EQ(json["warnings"].size(), examination.warnings.size());
}

TEST(PrecisionChoice, KernelsThatEmulateBf16AreNotMeasured) {
  EXPECT_EQ(precision_of_cpu("AVX2")->precision, Precision::fp32);
  EXPECT_EQ(precision_of_cpu("DEFAULT")->precision, Precision::fp32);
  EXPECT_FALSE(precision_of_cpu("AVX512").has_value());
}

TEST(PrecisionChoice, AGpuTakesBf16WhereItsMatrixUnitsDo) {
  EXPECT_EQ(precision_of_gpu(true).precision, Precision::bf16);
  EXPECT_EQ(precision_of_gpu(false).precision, Precision::fp32);
}

TEST(PrecisionChoice, WhatCouldNotBeMeasuredIsFp32) {
  EXPECT_EQ(faster_precision(0, 0).precision, Precision::fp32);
  EXPECT_EQ(faster_precision(2e12, 1e12).precision, Precision::bf16);
  EXPECT_EQ(faster_precision(1e12, 2e12).precision, Precision::fp32);
}

}  // namespace
}  // namespace ferry
