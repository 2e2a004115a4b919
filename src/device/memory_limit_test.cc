#include "device/memory_limit.h"

#include <ATen/ATen.h>
#include <c10/core/AllocatorConfig.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "device/allocator_settings.h"
#include "device/simulation.h"

namespace ferry {
namespace {

/// One simulated device of 4 MiB.
class LimitMemory : public testing::Test {
 protected:
  void SetUp() override {
    SimOptions options;
    options.devices = {{4_MiB, 1, {}, {}, 0}};
    simdev_open(options);
  }
  void TearDown() override { simdev_close(); }
};

TEST_F(LimitMemory, AnAllocationBeyondTheLimitFails) {
  const Device device = Device::open("sim:0");
  EXPECT_EQ(limit_memory({{{device, 4_MiB}}}), "");
  const at::Tensor slab = device.slab(3_MiB);
  EXPECT_EQ(limit_memory({{{device, 4_MiB}}}), "");
  EXPECT_THROW(device.slab(2_MiB), c10::OutOfMemoryError);
}

TEST_F(LimitMemory, ADeviceThatNothingHoldsToItsLimitIsTold) {
  const Device device = Device::open("sim:0");
  EXPECT_EQ(limit_memory({{{device, 2_MiB}}}),
            "nothing holds sim:0 to 2.0 MiB, since this torch takes no limit");
  EXPECT_EQ(device.memory_use().kept, 0_B) << "what was tried stays with the device";
}

TEST(SetAllocator, KeepsWhatWasSetBeforeAndWhatTheUserSet) {
  setenv("PYTORCH_ALLOC_CONF", "max_split_size_mb:64", 1);
  set_allocator("expandable_segments", "True");
  set_allocator("garbage_collection_threshold", "0.5");
  EXPECT_EQ(c10::CachingAllocator::getAllocatorSettings(),
            "max_split_size_mb:64,expandable_segments:True,garbage_collection_threshold:0.5");
  set_allocator("max_split_size_mb", "32");
  EXPECT_EQ(c10::CachingAllocator::AcceleratorAllocatorConfig::max_split_size(), 64u << 20);
  EXPECT_THROW(set_allocator("max_non_split_rounding_mb", "1"), c10::Error);
  set_allocator("garbage_collection_threshold", "0.25");
  EXPECT_EQ(c10::CachingAllocator::getAllocatorSettings(),
            "max_split_size_mb:64,expandable_segments:True,garbage_collection_threshold:0.25")
      << "what was refused is not tried again";
  unsetenv("PYTORCH_ALLOC_CONF");
}

}  // namespace
}  // namespace ferry
