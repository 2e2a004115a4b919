// What plans do with sums that the step rounds: half the bytes where they leave their devices, and
// no byte more where they do not.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "plan/verify.h"
#include "planner/costs/bounds.h"
#include "planner/sample_questions.h"
#include "planner/write/edges.h"
#include "planner/write/sample_schedules.h"
#include "planner/write/stream_plan.h"

namespace ferry {
namespace {

PlanQuestion rounding(PlanQuestion question) {
  question.gradients = Precision::bf16;
  return question;
}

/// All bytes of a kind of value that copies bring to the host in a step.
Bytes landed(const Plan& plan, ValueKind kind) {
  Bytes bytes;
  for (const Task& task : plan.tasks) {
    if (task.kind != TaskKind::copy) continue;
    const Instance& to = plan.instances[task.writes.front()];
    if (plan.values[to.value].kind != kind) continue;
    if (plan.places[to.place].kind == PlaceKind::host) bytes += task.bytes;
  }
  return bytes;
}

Bytes value_bytes(const Plan& plan, ValueKind kind) {
  Bytes bytes;
  for (const Value& value : plan.values) {
    if (value.kind == kind) bytes += value.bytes;
  }
  return bytes;
}

TEST(RoundedSums, ComeDownAndWaitInHalfTheBytes) {
  for (const bool tied : {false, true}) {
    SCOPED_TRACE(tied ? "tied" : "untied");
    PlanQuestion asked = sample_question({.tied = tied, .layers = 4}, {.devices = 2}, 3);
    asked.strategy = "mobius";
    asked.options.without = "homes";
    asked.options.stages = {{1, 2, 2, 2, 2, 1, 1}};
    const Plan exact = must_fit(asked).plan, rounded = must_fit(rounding(asked)).plan;
    // A tied head's sum joins that of the weights' owner before it is rounded.
    const Bytes of_head = tied ? make_chain(asked).blocks.back().gradients : Bytes{};
    EXPECT_EQ(landed(rounded, ValueKind::gradient), of_head);
    EXPECT_EQ(landed(rounded, ValueKind::rounded) * 2,
              landed(exact, ValueKind::gradient) - of_head);
    EXPECT_EQ(to_text(exact).find("R."), std::string::npos);
  }
}

TEST(RoundedSums, OfStatesThatStayOnDevicesTakeNoMemory) {
  for (const char* strategy : {"resident", "1f1b", "interleaved"}) {
    SCOPED_TRACE(strategy);
    PlanQuestion asked = sample_question({.layers = 4}, {.devices = 2}, 3);
    asked.strategy = strategy;
    const Plan exact = must_fit(asked).plan, rounded = must_fit(rounding(asked)).plan;
    EXPECT_EQ(rounded.gradients, Precision::bf16);
    EXPECT_EQ(value_bytes(rounded, ValueKind::rounded), Bytes{});
    for (const PlaceId place : exact.places.ids()) {
      EXPECT_EQ(peak_bytes(rounded, place), peak_bytes(exact, place));
    }
  }
}

/// One device, every block at home there.
StreamSchedule all_at_home(const Chain& chain, int micro_batches) {
  StreamSchedule schedule = one_by_one(chain, micro_batches);
  schedule.homes.assign(chain.size(), {.on_device = true});
  return schedule;
}

// With clipping a sum at home waits for the norm. Its last backward is its only visit, so it passes
// and R waits.
TEST(RoundedSums, WaitOnADeviceInHalfTheBytes) {
  PlanQuestion asked = sample_question({.layers = 6, .hidden = 64}, {}, 3);
  const auto written = [&](const PlanQuestion& question) {
    const Chain chain = make_chain(question);
    Plan plan = write_stream_plan(question, chain, all_at_home(chain, question.micro_batches));
    order_accesses(plan);
    const auto violation = verify(plan);
    EXPECT_FALSE(violation) << violation->message;
    return plan;
  };
  set_device_budgets(asked, 1_B);  // the least region that neighbours share
  const Chain chain = make_chain(asked);
  const auto slots = [&](const PlanQuestion& question) {
    const Plan plan = write_stream_plan(question, make_chain(question),
                                        all_at_home(chain, question.micro_batches));
    const auto device = std::ranges::find(plan.places, PlaceKind::device, &Place::kind);
    return slots_end(plan, plan.places.id_of(device));
  };
  Bytes sums, most;
  for (const ChainBlock& block : chain.blocks) {
    sums += block.gradients;
    most = std::max(most, block.gradients);
  }
  EXPECT_LE(slots(rounding(asked)), slots(asked) - Bytes{sums.count / 2} + most + 64_KiB);

  set_device_budgets(asked, 4_GiB);
  const Plan plan = written(rounding(asked));
  EXPECT_EQ(landed(plan, ValueKind::rounded), Bytes{});
  EXPECT_EQ(value_bytes(plan, ValueKind::rounded) * 2, value_bytes(plan, ValueKind::gradient));
  asked.clips = false;  // nothing waits: the update follows its backward and rounds G
  EXPECT_EQ(value_bytes(written(rounding(asked)), ValueKind::rounded), Bytes{});
}

// What a link downwards takes at least is half of what it was.
TEST(RoundedSums, HalveTheBoundOfADownwardLink) {
  PlanQuestion asked = sample_question({.layers = 4, .hidden = 64}, {.link_rate = 1e9}, 1);
  asked.machine.devices.front().down = {1e4};
  asked.clips = false;  // nothing else waits for the sums
  const Chain exact = make_chain(asked), rounded = make_chain(rounding(asked));
  const double bound = streaming_lower_bound(asked, exact).count;
  EXPECT_NEAR(streaming_lower_bound(rounding(asked), rounded).count * 2, bound, 1e-9 * bound);
}

TEST(RoundedSums, KeepEveryPromiseOfAPlan) {
  std::uint64_t rounds = 0;
  for (std::uint64_t seed = 1; seed <= random_share(200); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const PlanAnswer answer = make_plan(rounding(random_question(seed, true)));
    const auto* planned = std::get_if<Planned>(&answer);
    if (planned == nullptr) continue;
    expect_promises_hold(*planned);
    if (value_bytes(planned->plan, ValueKind::rounded) > Bytes{}) ++rounds;
  }
  expect_enough(rounds, 20);
}

}  // namespace
}  // namespace ferry
