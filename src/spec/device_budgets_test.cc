#include "spec/device_budgets.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace ferry {
namespace {

Machine two_gpus() {
  return parse_machine(
      "name: pair\n"
      "host: {cores: 4, memory: 64 GiB}\n"
      "devices:\n"
      "  - {kind: cuda, memory: 24 GiB}\n"
      "  - {kind: cuda, memory: 11 GiB}\n",
      "pair.yaml");
}

std::vector<Budget> budgets_of(const std::string& device) {
  return device_budgets(parse_job("model: m\nbudget: {device: " + device + "}\n", "job.yaml"),
                        two_gpus());
}

std::string error_of(const std::string& device) {
  try {
    budgets_of(device);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(DeviceBudgets, EachDeviceHasItsOwn) {
  const std::vector<Budget> all = budgets_of("null");
  EXPECT_EQ(all.at(0).bytes, 24_GiB);
  EXPECT_EQ(all.at(1).bytes, 11_GiB);
  EXPECT_EQ(all.at(1).source, two_gpus().source.text);
  const std::vector<Budget> each = budgets_of("16 GiB");
  EXPECT_EQ(each.at(0).bytes, 16_GiB);
  EXPECT_EQ(each.at(0).source, "budget.device, job.yaml:2");
  EXPECT_EQ(each.at(1).bytes, 11_GiB);
  EXPECT_EQ(each.at(1).source, two_gpus().source.text);
  const std::vector<Budget> listed = budgets_of("[20 GiB, 10 GiB]");
  EXPECT_EQ(listed.at(0).bytes, 20_GiB);
  EXPECT_EQ(listed.at(1).bytes, 10_GiB);
  const std::vector<Budget> named = budgets_of("{gpu1: 8 GiB}");
  EXPECT_EQ(named.at(0).bytes, 24_GiB);
  EXPECT_EQ(named.at(1).bytes, 8_GiB);
  EXPECT_EQ(named.at(1).source, "budget.device, job.yaml:2");
}

TEST(DeviceBudgets, SizesOfOtherDevicesAreRefused) {
  EXPECT_EQ(error_of("[1 GiB]"),
            "job.yaml:2: budget.device: expected a size for each of the 2 devices of machine "
            "'pair', found 1");
  EXPECT_EQ(error_of("{gpu2: 1 GiB}"),
            "job.yaml:2: budget.device: machine 'pair' has no device 'gpu2'; did you mean 'gpu0'? "
            "expected names of gpu0, gpu1");
}

}  // namespace
}  // namespace ferry
