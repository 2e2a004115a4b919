#include "spec/shared_memory.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "spec/fake_box.h"

namespace ferry {
namespace {

constexpr Bytes kItself = kProgramMemory + kBesidePlan + kReuseOfDevice;

TEST(SharedMemory, IsWhatIsFreeAndHeldLessWhatFerryItselfTakes) {
  const FakeBox box("ferry-shared-free");
  const Bytes free = Bytes{8'000'000 * 1024LL};
  const SharedMemory shared = shared_memory(host_limits(box.path(), 1), 60_MiB, 1);
  const Bytes all = free + 60_MiB;
  EXPECT_LE(shared.bytes, all - kItself - Bytes{all.count / 32});
  EXPECT_GT(shared.bytes, all - kItself - Bytes{all.count / 32} - 1_MiB);
  EXPECT_EQ(shared.bytes.count % (1 << 20), 0);
  EXPECT_EQ(shared.source,
            "this machine: 7.7 GiB (free memory) less 486.0 MiB that ferry itself takes");
}

TEST(SharedMemory, OfAControlGroupIsWhatItLeaves) {
  const FakeBox box("ferry-shared-group");
  box.write("proc/self/cgroup", "0::/job");
  box.write("sys/fs/cgroup/job/memory.max", std::to_string((640_MiB).count));
  box.write("sys/fs/cgroup/job/memory.current", std::to_string((100_MiB).count));
  box.write("sys/fs/cgroup/job/memory.stat", "inactive_file " + std::to_string((40_MiB).count));
  const HostLimits limits = host_limits(box.path(), 1);
  const SharedMemory shared = shared_memory(limits, 20_MiB, 1);
  EXPECT_EQ(shared.bytes, 600_MiB - kItself - 19_MiB);  // 640 - 100 + 40 + 20; a 32nd, rounded up
  EXPECT_NE(shared.source.find("600.0 MiB (/sys/fs/cgroup/job/memory.max)"), std::string::npos)
      << shared.source;
  const Bytes beside = kBesidePlan + kReuseOfDevice;
  EXPECT_NO_THROW(require_free_memory(limits, {580_MiB - beside, "host 1.0 MiB", 1}));
  try {
    require_free_memory(limits, {581_MiB - beside, "gpu0 17.0 MiB, host 500.0 MiB", 1});
    FAIL() << "more than the group has was accepted";
  } catch (const ResourceError& error) {
    const std::string said = error.what();
    EXPECT_NE(said.find("(gpu0 17.0 MiB, host 500.0 MiB)"), std::string::npos) << said;
    EXPECT_NE(said.find("580.0 MiB can be taken (/sys/fs/cgroup/job/memory.max)"),
              std::string::npos)
        << said;
  }
}

TEST(SharedMemory, OfAMachineFileIsItsHostsLessWhatFerryItselfTakes) {
  const Machine machine = parse_machine(
      "name: box\nhost: {cores: 2, memory: 3200 MiB, shared: true}\n"
      "devices: [{kind: sim, memory: 3200 MiB}]\n",
      "box.yaml");
  const SharedMemory shared = shared_memory(machine);
  EXPECT_EQ(shared.bytes, 3200_MiB - kItself - 100_MiB);
  EXPECT_EQ(shared.source, "box.yaml:2: 3.1 GiB less 340.0 MiB that ferry itself takes");
}

TEST(SharedMemory, IsNothingWhereFerryAloneTakesMore) {
  EXPECT_EQ(shared_memory({.cores = 1, .memory = 150_MiB}, 40_MiB, 1).bytes, 0_B);
}

}  // namespace
}  // namespace ferry
