#include "device/driver_memory.h"

#include <gtest/gtest.h>

#include <cstring>

namespace ferry {
namespace {

/// A driver with one GPU, at 0000:3b:00.0, of which 5 bytes of 16 are used.
DriverMemory one_gpu() {
  static int gpu;
  return {
      .init = [] { return 0; },
      .device_by_address = [](const char* address, void** device) -> int {
        *device = &gpu;
        return std::strcmp(address, "0000:3b:00.0") == 0 ? 0 : 6;
      },
      .memory_info = [](void* device, DriverMemory::Counts* counts) -> int {
        *counts = {.total = 16, .free = 11, .used = 5};
        return device == &gpu ? 0 : 1;
      },
  };
}

TEST(DriverMemory, SaysWhatIsUsedOfAGpu) { EXPECT_EQ(one_gpu().used("0000:3b:00.0"), 5_B); }

TEST(DriverMemory, SaysNothingOfAGpuThatTheDriverDoesNotKnow) {
  EXPECT_EQ(one_gpu().used("0000:00:00.0"), std::nullopt);
}

TEST(DriverMemory, SaysNothingWhereTheDriverRefuses) {
  DriverMemory driver = one_gpu();
  driver.memory_info = [](void*, DriverMemory::Counts*) { return 999; };
  EXPECT_EQ(driver.used("0000:3b:00.0"), std::nullopt);
}

}  // namespace
}  // namespace ferry
