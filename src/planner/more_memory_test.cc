#include "planner/more_memory.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "plan/at_home.h"
#include "planner/sample_questions.h"

namespace ferry {
namespace {

// Answers with plans of given seconds, by the kind of memory that has more than in `question`, and
// keeps what it was asked about each.
class FixedPlanner {
 public:
  enum Kind { devices, host, drives };

  FixedPlanner(PlanQuestion question, std::map<Kind, double> seconds)
      : question_(std::move(question)), seconds_(std::move(seconds)) {}

  Planner planner() {
    return [this](const PlanQuestion& asked) -> PlanAnswer {
      const Kind more = grown(asked);
      asked_[more].push_back(asked);
      return planned(seconds_.at(more));
    };
  }

  const PlanQuestion& asked(Kind more) const {
    EXPECT_EQ(asked_[more].size(), 1U);
    return asked_[more].at(0);
  }

  static Planned planned(double seconds) {
    Planned answer;
    answer.plan.strategy = "fixed";
    answer.prediction.step = answer.expected = from_seconds(seconds);
    return answer;
  }

 private:
  Kind grown(const PlanQuestion& asked) const {
    if (device_budget(asked, 0).bytes > device_budget(question_, 0).bytes) return devices;
    return asked.machine.drives != question_.machine.drives ? drives : host;
  }

  const PlanQuestion question_;
  const std::map<Kind, double> seconds_;
  std::array<std::vector<PlanQuestion>, 3> asked_;  // by kind: several threads ask
};

class Heard final : public PhaseListener {
 public:
  void progress(const Progress& progress) override {
    total = progress.total;
    done = progress.done;
  }
  std::int64_t done = -1, total = -1;
};

PlanQuestion on_two_devices() {
  PlanQuestion question = sample_question({}, {.devices = 2}, 2);
  set_device_budgets(question, 64_MiB);
  question.machine.devices[0].memory = question.machine.devices[1].memory = 64_MiB;
  question.host_budget = 32_GiB;
  question.machine.host.memory = 64_GiB;
  return question;
}

TEST(MoreMemory, ALittleIsAGibibyteOrASixteenth) {
  EXPECT_EQ(little_more(24_GiB), 1_GiB);
  EXPECT_EQ(little_more(16_GiB), 1_GiB);
  EXPECT_EQ(little_more(8_GiB), 512_MiB);
  EXPECT_EQ(little_more(64_MiB), 4_MiB);
  EXPECT_EQ(little_more(70_MiB), 4_MiB);
  EXPECT_EQ(little_more(72_MiB), 5_MiB);
  EXPECT_EQ(little_more(1_MiB), 1_MiB);
  EXPECT_EQ(little_more(0_B), 1_MiB);
  EXPECT_EQ(little_more(1000_GiB), 1_GiB);
  EXPECT_EQ(little_more(1600_GiB), 100_GiB);
  EXPECT_EQ(little_more(1607_GiB), 100_GiB);
}

TEST(MoreMemory, EveryKindIsPlannedOnceWithMoreOfItAlone) {
  const PlanQuestion question = on_two_devices();
  FixedPlanner fixed(question, {{FixedPlanner::devices, 0.9}, {FixedPlanner::host, 1.0}});
  Heard heard;
  const auto rows =
      what_more_memory_brings(question, FixedPlanner::planned(1), fixed.planner(), heard);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(heard.done, 2);
  EXPECT_EQ(heard.total, 2);

  EXPECT_EQ(rows[0].what, "each device");
  EXPECT_EQ(rows[0].more, 8_MiB);
  EXPECT_EQ(rows[0].then, 72_MiB);
  EXPECT_NEAR(rows[0].saved.seconds(), 0.1, 1e-9);
  EXPECT_EQ(device_budget(fixed.asked(FixedPlanner::devices), 0).bytes, 72_MiB);
  EXPECT_EQ(device_budget(fixed.asked(FixedPlanner::devices), 1).bytes, 72_MiB);
  EXPECT_EQ(fixed.asked(FixedPlanner::devices).host_budget, question.host_budget);

  EXPECT_EQ(rows[1].what, "DRAM");
  EXPECT_EQ(rows[1].then, 33_GiB);
  EXPECT_EQ(rows[1].saved, Micros{});
  EXPECT_EQ(fixed.asked(FixedPlanner::host).host_budget, 33_GiB);
  EXPECT_EQ(device_budget(fixed.asked(FixedPlanner::host), 0).bytes, 64_MiB);
}

TEST(MoreMemory, UnequalDevicesAllGetWhatIsLittleForTheLeast) {
  PlanQuestion question = on_two_devices();
  question.machine.devices[0].memory = 128_MiB;
  question.device_budgets[0].bytes = 128_MiB;
  FixedPlanner fixed(question, {{FixedPlanner::devices, 1}, {FixedPlanner::host, 1}});
  what_more_memory_brings(question, FixedPlanner::planned(1), fixed.planner(), nobody());
  EXPECT_EQ(device_budget(fixed.asked(FixedPlanner::devices), 0).bytes, 136_MiB);
  EXPECT_EQ(device_budget(fixed.asked(FixedPlanner::devices), 1).bytes, 72_MiB);
}

TEST(MoreMemory, DrivesAreAKindWhereThereAreSome) {
  PlanQuestion question = on_two_devices();
  question.machine.drives = {{.name = "ssd0", .capacity = 20_GiB},
                             {.name = "ssd1", .capacity = 40_GiB}};
  FixedPlanner fixed(
      question, {{FixedPlanner::devices, 1}, {FixedPlanner::host, 1}, {FixedPlanner::drives, 0.5}});
  const auto rows =
      what_more_memory_brings(question, FixedPlanner::planned(1), fixed.planner(), nobody());
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[2].what, "each drive");
  EXPECT_EQ(rows[2].then, 21_GiB);
  EXPECT_EQ(fixed.asked(FixedPlanner::drives).machine.drives[0].capacity, 21_GiB);
  EXPECT_EQ(fixed.asked(FixedPlanner::drives).machine.drives[1].capacity, 41_GiB);
}

TEST(MoreMemory, OneMemoryThatPlacesShareIsOneKind) {
  PlanQuestion question = on_two_devices();
  question.shared = SharedMemory{48_MiB, "test"};
  FixedPlanner fixed(question, {{FixedPlanner::host, 1}});
  const auto rows =
      what_more_memory_brings(question, FixedPlanner::planned(1), fixed.planner(), nobody());
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].what, "shared memory");
  EXPECT_EQ(rows[0].then, 51_MiB);
  EXPECT_EQ(fixed.asked(FixedPlanner::host).shared->bytes, 51_MiB);

  question.shared->bytes = 1_GiB;  // beyond which the devices' own budgets hold
  FixedPlanner again(question, {{FixedPlanner::devices, 1}, {FixedPlanner::host, 1}});
  EXPECT_EQ(what_more_memory_brings(question, FixedPlanner::planned(1), again.planner(), nobody())
                .front()
                .what,
            "each device");
}

TEST(MoreMemory, MemoryThatOnlySlowerPlansWouldUseSavesNothing) {
  const PlanQuestion question = on_two_devices();
  FixedPlanner fixed(question, {{FixedPlanner::devices, 1.1}, {FixedPlanner::host, 2}});
  for (const MoreMemory& row :
       what_more_memory_brings(question, FixedPlanner::planned(1), fixed.planner(), nobody())) {
    EXPECT_EQ(row.saved, Micros{}) << row.what;
    EXPECT_EQ(row.step, from_seconds(1)) << row.what;
  }
}

// With a device of half the states, some rest there and pass nowhere; a little more of it holds
// more of them.
TEST(MoreMemory, WithMoreOnTheDeviceMoreIsAtHomeThere) {
  PlanQuestion question = sample_question({.layers = 6, .hidden = 64}, {.link_rate = 20e6}, 2);
  question.strategy = "mobius";
  set_device_budgets(question, Bytes{states_of(question).count / 2});
  const Planned half = must_fit(question);
  const IdVector<PlaceId, Bytes> home = bytes_at_home(half.plan);
  Bytes on_device;
  for (const PlaceId p : half.plan.places.ids()) {
    if (half.plan.places[p].kind == PlaceKind::device) on_device += home[p];
  }
  EXPECT_GT(on_device, 0_B);
  EXPECT_LT(on_device, states_of(question));

  const auto rows = what_more_memory_brings(question, half, make_plan, nobody());
  EXPECT_EQ(rows.front().what, "gpu0");
  EXPECT_GT(rows.front().saved, Micros{});
  EXPECT_LT(rows.front().step, half.expected);
}

}  // namespace
}  // namespace ferry
