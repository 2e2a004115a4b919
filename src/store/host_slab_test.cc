#include "store/host_slab.h"

#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <string>
#include <system_error>

#include "base/error.h"

namespace ferry {
namespace {

TEST(HostSlab, SlotsLieAtTheirOffsets) {
  const HostSlab slab(1_MiB);
  const auto slot = slab.at(512_B, 1024_B);
  EXPECT_EQ(slot.data(), slab.bytes().data() + 512);
  EXPECT_EQ(slot.size(), 1024U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(slab.bytes().data()) % 4096, 0U);
  EXPECT_EQ(slab.at(1_MiB, 0_B).size(), 0U);
  EXPECT_EQ(slab.size(), 1_MiB);
}

TEST(HostSlab, AFreshSlabIsZeroAndTouchingItKeepsWhatItHolds) {
  HostSlab slab(130_MiB);  // more than two pieces of work
  const auto bytes = slab.bytes();
  bytes[5] = std::byte{7};
  slab.touch(3);
  EXPECT_EQ(bytes[5], std::byte{7});
  bytes[5] = std::byte{0};
  EXPECT_EQ(std::count(bytes.begin(), bytes.end(), std::byte{0}), 130 << 20);
}

TEST(HostSlab, TouchingTellsHowManyBytesAreBacked) {
  struct Listener final : PhaseListener {
    void progress(const Progress& progress) override { told.push_back(progress); }
    std::vector<Progress> told;
  } listener;
  HostSlab slab(130_MiB);
  slab.touch(2, listener);
  ASSERT_GE(listener.told.size(), 2u);
  EXPECT_EQ(listener.told.front().done, 0);
  EXPECT_TRUE(std::ranges::is_sorted(listener.told, {}, &Progress::done));
  EXPECT_EQ(listener.told.back().done, (130_MiB).count);
  EXPECT_EQ(listener.told.back().total, (130_MiB).count);
}

std::string reason(int errno_value) { return std::generic_category().message(errno_value); }

/// How the kernel takes the slab's pages, and from which of its first 64 nodes.
struct Policy {
  explicit Policy(const HostSlab& slab) {
    std::array<unsigned long, 1024 / 64> mask{};
    EXPECT_EQ(
        syscall(SYS_get_mempolicy, &mode, mask.data(), 1025UL, slab.bytes().data(), MPOL_F_ADDR),
        0);
    nodes = mask.front();
  }

  int mode = -1;
  unsigned long nodes = 0;
};

TEST(HostSlab, ItsPagesComeFromTheNodeThatIsAskedFor) {
  constexpr std::array kFirst = {0};
  HostSlab slab(4_MiB);
  const std::string refused = slab.lie_on(kFirst);
  if (refused == reason(EPERM) || refused == reason(ENOSYS)) {
    GTEST_SKIP() << "this container may not choose nodes";
  }
  EXPECT_EQ(refused, "");
  EXPECT_EQ(Policy(slab).mode, MPOL_PREFERRED);
  EXPECT_EQ(Policy(slab).nodes, 1UL);
  slab.touch(2);
  int node = -1;
  EXPECT_EQ(syscall(SYS_get_mempolicy, &node, nullptr, 0UL, slab.bytes().data(),
                    MPOL_F_NODE | MPOL_F_ADDR),
            0);
  EXPECT_EQ(node, 0);
}

TEST(HostSlab, ANodeThatTheBoxHasNotIsRefusedAndTheSlabIsAsItWas) {
  constexpr std::array kNowhere = {1023};
  HostSlab slab(4_MiB);
  EXPECT_NE(slab.lie_on(kNowhere), "");
  slab.touch(1);
  EXPECT_EQ(slab.bytes().back(), std::byte{0});
}

TEST(HostSlab, AnEmptySlabIsFine) {
  constexpr std::array kNodes = {0, 1};
  HostSlab slab(0_B);
  EXPECT_EQ(slab.lie_on(kNodes), "");
  slab.touch(2);
  EXPECT_TRUE(slab.at(0_B, 0_B).empty());
}

TEST(HostSlab, ASlabThatTheMachineRefusesIsAResourceErrorNamingNeedAndHave) {
  try {
    const HostSlab slab(1024 * 1024_GiB);
    FAIL() << "a petabyte was granted";
  } catch (const ResourceError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("1024.00 TiB"), std::string::npos) << text;
    EXPECT_NE(text.find("this machine has"), std::string::npos) << text;
    EXPECT_NE(text.find("Cannot allocate memory"), std::string::npos) << text;
  }
}

TEST(HostSlabDeathTest, ASlotOutsideTheSlabIsCaught) {
  const HostSlab slab(8_KiB);
  EXPECT_DEATH(slab.at(4_KiB, 4097_B), "leaves a slab of 8192 B");
  EXPECT_DEATH(slab.at(8193_B, 0_B), "leaves a slab");
  EXPECT_DEATH(slab.at({-1}, 1_B), "leaves a slab");
  EXPECT_DEATH(slab.at(1_B, {INT64_MAX}), "leaves a slab");
}

}  // namespace
}  // namespace ferry
