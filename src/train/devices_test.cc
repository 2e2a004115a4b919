// What is decided before devices are used; no GPU has to be here.
#include "train/devices.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "device/memory_limit.h"

namespace ferry {
namespace {

class GpuShares : public testing::Test {
 protected:
  ~GpuShares() override { hold_gpus({}); }

  static Job with_budget(Bytes size) {
    Job job;
    job.budget.device = Sizes{.each = size};
    return job;
  }
};

const Machine kThree = parse_machine(
    "name: m\nhost: {cores: 2, memory: 8 GiB}\ndevices:\n"
    "  - {kind: cuda, index: 0, memory: 8 GiB}\n"
    "  - {kind: cuda, index: 0, memory: 8 GiB}\n"
    "  - {kind: cuda, index: 2, memory: 3 GiB}\n",
    "m.yaml");

TEST_F(GpuShares, OfLogicalDevicesAreTheSumOfTheirBudgets) {
  hold_gpus_to(with_budget(5_GiB), &kThree);
  EXPECT_EQ(gpu_share()(0, 24_GiB), 10_GiB);
  EXPECT_EQ(gpu_share()(1, 24_GiB), std::nullopt) << "the machine has none of this index";
  EXPECT_EQ(gpu_share()(2, 24_GiB), 3_GiB) << "the machine's memory is less than the budget";
}

TEST_F(GpuShares, WithoutAMachineAreTheBudgetOrWhatIsFreeButForAPart) {
  hold_gpus_to(with_budget(5_GiB), nullptr);
  EXPECT_EQ(gpu_share()(0, 24_GiB), 5_GiB);
  EXPECT_EQ(gpu_share()(1, 4_GiB), 4_GiB - 256_MiB);
  hold_gpus_to(Job(), nullptr);
  EXPECT_EQ(gpu_share()(0, 24_GiB), 23_GiB);
}

TEST(OpenDevices, AreOfOneKind) {
  const Machine both = parse_machine(
      "name: both\nhost: {cores: 2, memory: 8 GiB}\ndevices:\n"
      "  - {kind: sim, memory: 1 GiB}\n"
      "  - {kind: cuda, memory: 1 GiB}\n",
      "m.yaml");
  EXPECT_THROW(OpenDevices(both, {}), UserError);
}

}  // namespace
}  // namespace ferry
