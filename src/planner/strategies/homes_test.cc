#include "planner/strategies/homes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "plan/verify.h"
#include "planner/costs/estimate.h"
#include "planner/costs/queues.h"
#include "planner/llama_shape.h"
#include "planner/realistic_questions.h"
#include "planner/sample_questions.h"
#include "planner/strategies/streaming.h"
#include "planner/write/edges.h"
#include "planner/write/sample_schedules.h"
#include "planner/write/staging.h"
#include "planner/write/stream_plan.h"
#include "spec/pass_names.h"

namespace ferry {
namespace {

constexpr Bytes kEmbedding = 12_MiB;
constexpr Bytes kLayer = 2_MiB;

void add_drive(PlanQuestion& question, Bytes capacity, double rate) {
  question.machine.drives = {{.name = "ssd0", .capacity = capacity}};
  question.machine.drives.front().read = question.machine.drives.front().write = {rate};
}

// Twelve blocks whose optimizer states are of one size, between an embedding and a head of another.
struct Sample {
  explicit Sample(bool clips) {
    question = sample_question({.layers = 6}, {}, 2);
    add_drive(question, 1_GiB, 1e9);
    question.clips = clips;
    chain = make_chain(question);
    for (ChainBlock& block : chain.blocks) {
      const bool layer = &block != &chain.blocks.front() && &block != &chain.blocks.back();
      block.states = layer ? kLayer : kEmbedding;
      block.weights = Bytes{block.states.count / 5};
      block.gradients = block.weights * 2;
      all += block.states + block.weights + block.gradients;
    }
  }

  StreamSchedule resting(Bytes limit, StreamSchedule schedule = {}) const {
    rest_by_value(question, chain, {.all = all, .inputs = {}}, limit, schedule);
    return schedule;
  }

  // Optimizer states.
  Bytes on_drives(const StreamSchedule& schedule) const {
    Bytes bytes;
    for (const BlockId b : chain.blocks.ids()) {
      if (home_of_block(schedule, b).state_on_drive) bytes += chain.blocks[b].states;
    }
    return bytes;
  }

  PlanQuestion question;
  Chain chain;
  Bytes all;
};

int sums_passing(const StreamSchedule& schedule) {
  return static_cast<int>(std::ranges::count(schedule.homes, true, &BlockHome::sum_passes));
}

TEST(Homes, WhatFitsStaysInDram) {
  const Sample sample(true);
  EXPECT_FALSE(sample.resting(sample.all).uses_drives());
}

// Three slots for an embedding's states take more than the embeddings' states themselves do.
TEST(Homes, StatesOfEmbeddingsStayWhereSlotsForThemWouldTakeMore) {
  const Sample sample(true);
  const StreamSchedule resting = sample.resting(sample.all - 10_MiB);
  EXPECT_FALSE(resting.homes.front().state_on_drive);
  EXPECT_FALSE(resting.homes.back().state_on_drive);
  // What is missing, and three slots of a layer's states.
  EXPECT_EQ(sample.on_drives(resting), 10_MiB + 3 * kLayer);
  EXPECT_EQ(sums_passing(resting), 0);
}

// So do their weights, where weights of layers leave.
TEST(Homes, WeightsOfEmbeddingsStayWhereSlotsForThemWouldTakeMore) {
  Sample sample(false);
  for (ChainBlock& block : sample.chain.blocks) {
    const Bytes weights = Bytes{block.states.count / 2};
    sample.all += weights - block.weights;
    block.weights = weights;
  }
  StreamSchedule schedule;
  schedule.staging = kLeastStaging;
  const StreamSchedule resting = sample.resting(36_MiB, schedule);
  EXPECT_GT(std::ranges::count(resting.homes, true, &BlockHome::weight_on_drive), 0);
  EXPECT_FALSE(resting.homes.front().weight_on_drive);
  EXPECT_FALSE(resting.homes.back().weight_on_drive);
}

// The last one that leaves is larger than what is lacking: smaller ones that left before come back.
TEST(Homes, WhatLeftInVainComesBack) {
  Sample sample(true);
  for (int b : {9, 11}) {
    sample.chain.blocks[b].states = 64_KiB;
    sample.all -= kLayer - 64_KiB;
  }
  StreamSchedule schedule;
  schedule.staging.states = 1;
  const StreamSchedule resting = sample.resting(sample.all - 1_MiB, schedule);
  EXPECT_FALSE(resting.homes[9].state_on_drive);
  EXPECT_FALSE(resting.homes[11].state_on_drive);
  EXPECT_EQ(sample.on_drives(resting), 2 * kLayer) << "and as much to pass through";
}

// Of states that do not come back as a whole their first pieces do: no more than a piece leaves in
// vain.
TEST(Homes, PiecesComeBackWhereStatesDoNot) {
  Sample sample(false);
  Bytes sums;
  std::vector<Bytes> landing;
  for (const ChainBlock& block : sample.chain.blocks) {
    sums += block.gradients;
    landing.push_back(round_up(block.gradients, kHomeAlignment));
  }
  const Bytes limit = sample.all - sums - 3_MiB;
  StreamSchedule schedule;
  schedule.staging = {.pieces = 1, .sums = 1};
  schedule.parts_states = true;
  for (const Bytes piece : {512_KiB, 256_KiB}) {
    for (ChainBlock& block : sample.chain.blocks) block.state_piece = piece;
    const StreamSchedule resting = sample.resting(limit, schedule);
    Bytes on_drives;
    int in_part = 0;
    for (const BlockId b : sample.chain.blocks.ids()) {
      const ChainBlock& block = sample.chain.blocks[b];
      const BlockHome home = home_of_block(resting, b);
      if (home.state_on_drive) on_drives += block.states - piece * home.pieces_in_dram;
      if (home.pieces_in_dram == 0) continue;
      ++in_part;
      EXPECT_TRUE(home.state_on_drive);
      EXPECT_LT(home.pieces_in_dram, state_pieces(block));
    }
    EXPECT_EQ(in_part, 1);
    const Bytes lacking = sample.all - sums - limit + room_for_states(sample.chain, resting) +
                          room_for_sums(resting, landing);
    EXPECT_GE(on_drives, lacking);
    EXPECT_LT(on_drives, lacking + piece);
  }
}

// Any states, in any room for those that pass: as much as between the two plans.
TEST(Homes, WhatOtherStatesTakeOfDramIsSeenWithoutAPlan) {
  Sample sample(false);
  for (ChainBlock& block : sample.chain.blocks) block.state_piece = 512_KiB;
  std::mt19937 random(5);
  const auto any = [&](int end) { return static_cast<int>(random() % static_cast<unsigned>(end)); };
  const auto peak = [&](const StreamSchedule& schedule) {
    return host_peak(write_stream_plan(sample.question, sample.chain, schedule));
  };
  for (int i = 0; i < 50; ++i) {
    StreamSchedule now = one_by_one(sample.chain, sample.question.micro_batches);
    now.homes.assign(sample.chain.size(), {.sum_passes = true});
    now.homes[1].weight_on_drive = any(2) == 0;
    now.staging = {.states = 1 + any(3), .pieces = any(4)};
    StreamSchedule then = now;
    for (StreamSchedule* schedule : {&now, &then}) {
      for (const BlockId b : sample.chain.blocks.ids()) {
        BlockHome& home = schedule->homes[b.index()];
        home.state_on_drive = any(2) == 0;
        if (home.state_on_drive) home.pieces_in_dram = any(state_pieces(sample.chain.blocks[b]));
      }
    }
    const std::optional<Bytes> more = more_in_dram(sample.chain, now, then);
    ASSERT_TRUE(more.has_value());
    EXPECT_EQ(*more, peak(then) - peak(now));
    then.homes[1].weight_on_drive = !now.homes[1].weight_on_drive;
    EXPECT_FALSE(more_in_dram(sample.chain, now, then).has_value());
  }
}

TEST(Homes, EveryBlockHasAPlaceInEveryLeavingOrder) {
  for (const int layers : {1, 2, 5, 6}) {
    for (const bool tied : {false, true}) {
      const Chain chain = make_chain(sample_question({.tied = tied, .layers = layers}, {}, 1));
      std::vector<BlockId> all = deepest_first(chain);
      EXPECT_EQ(all.front(), BlockId(static_cast<int>(chain.size()) - 1));
      for (std::vector<BlockId>& order : leaving_orders(chain)) {
        if (order.empty()) continue;
        EXPECT_TRUE(std::ranges::is_permutation(order, all)) << layers;
      }
    }
  }
}

// Large states alternate with small ones, so that slots for two neighbours are one of each, as
// where the deepest leave first.
TEST(Homes, StatesThatLeaveTwoByTwoPassThroughLess) {
  Sample sample(true);
  for (std::size_t b = 2; b + 1 < sample.chain.size(); b += 2) {
    sample.chain.blocks[b].states = 3 * kLayer;
    sample.all += 2 * kLayer;
  }
  std::vector<Bytes> on_drives;
  for (std::vector<BlockId>& order : leaving_orders(sample.chain)) {
    StreamSchedule schedule;
    schedule.staging.states = 2;
    schedule.leaving = std::move(order);
    on_drives.push_back(sample.on_drives(sample.resting(sample.all - 35_MiB, schedule)));
  }
  ASSERT_EQ(on_drives.size(), 3U);
  EXPECT_GT(on_drives[1], on_drives[0]);
  EXPECT_EQ(on_drives[2], on_drives[0]);
}

TEST(Homes, StatesCanLeaveEvenlySpread) {
  const Sample sample(true);
  StreamSchedule schedule;
  schedule.leaving = leaving_orders(sample.chain)[1];
  const StreamSchedule resting = sample.resting(sample.all - 4_MiB, schedule);
  const auto on_drives = [&](std::size_t from, std::size_t to) {
    return std::count_if(resting.homes.begin() + static_cast<std::ptrdiff_t>(from),
                         resting.homes.begin() + static_cast<std::ptrdiff_t>(to),
                         [](const BlockHome& home) { return home.state_on_drive; });
  };
  const std::size_t half = sample.chain.size() / 2;
  EXPECT_GT(on_drives(0, half), 0);
  EXPECT_GT(on_drives(half, sample.chain.size()), 0);
  const StreamSchedule deepest = sample.resting(sample.all - 4_MiB);
  EXPECT_EQ(std::ranges::count(deepest.homes, true,
                               [](const BlockHome& home) { return home.state_on_drive; }),
            on_drives(0, sample.chain.size()));
}

TEST(Homes, WithNextToNoDramEmbeddingsLeaveIt) {
  const Sample sample(true);
  const StreamSchedule resting = sample.resting(1_MiB);
  EXPECT_TRUE(resting.homes.front().state_on_drive);
  EXPECT_TRUE(resting.homes.front().weight_on_drive);
}

TEST(Homes, WhatRestsOnDevicesTakesNoDram) {
  const Sample sample(true);
  StreamSchedule schedule;
  schedule.homes.resize(sample.chain.size());
  for (int b : {1, 2, 3}) schedule.homes[b] = {.on_device = true};
  const StreamSchedule resting = sample.resting(sample.all - 10_MiB, schedule);
  const StreamSchedule without = sample.resting(sample.all - 10_MiB);
  EXPECT_TRUE(resting.homes[1].on_device);
  EXPECT_FALSE(resting.homes[1].state_on_drive);
  // W, S and G of three layers: 16/10 of 6 MiB, 9.6 of the 10 that are missing.
  EXPECT_EQ(sample.on_drives(resting), 4 * kLayer);
  EXPECT_LT(sample.on_drives(resting), sample.on_drives(without));
}

TEST(Homes, SumsLeaveBeforeStatesWhereNothingWaitsOrTheScheduleSaysSo) {
  StreamSchedule sums_first;
  sums_first.sums_leave_first = 14;
  for (const bool clips : {false, true}) {
    const Sample sample(clips);
    const StreamSchedule resting =
        sample.resting(sample.all - 1_MiB, clips ? sums_first : StreamSchedule{});
    EXPECT_GT(sums_passing(resting), 0);
    EXPECT_EQ(sample.on_drives(resting), 0_B);
  }
  const Sample sample(true);
  EXPECT_EQ(sums_passing(sample.resting(sample.all - 1_MiB)), 0);
}

// The deepest, whose updates the next forward needs last; states make up for what is lacking.
TEST(Homes, OfSumsThatWaitNoMoreLeaveThanHaveToOrMay) {
  Sample sample(true);
  // A norm. To let its states alone leave and all sums moves the least, but keeps to no share.
  sample.all -= kLayer - 4_KiB;
  sample.chain.blocks[BlockId(12)].states = 4_KiB;
  StreamSchedule sums_first;
  sums_first.staging = kLeastStaging;
  Bytes states;
  for (const int most : {14, 8, 6}) {
    SCOPED_TRACE(most);
    sums_first.sums_leave_first = most;
    const StreamSchedule resting = sample.resting(sample.all - 4_MiB, sums_first);
    const int passing = sums_passing(resting);
    EXPECT_GT(passing, 0);
    EXPECT_LE(passing, most);
    EXPECT_LT(passing, 14);
    for (int b = 1; b + 1 < 13; ++b) {
      EXPECT_LE(resting.homes[b].sum_passes, resting.homes[b + 1].sum_passes) << b;
    }
    EXPECT_GE(sample.on_drives(resting), states);
    states = sample.on_drives(resting);
  }
  EXPECT_GT(states, 0_B);
}

// Nothing waits, so passing costs the drives nothing.
TEST(Homes, AllSumsPassWhereNothingWaits) {
  const Sample sample(false);
  const StreamSchedule resting = sample.resting(sample.all - 1_MiB);
  EXPECT_EQ(sums_passing(resting), std::ssize(sample.chain.blocks));
}

// W.b as an update on the host reads it, of every copy from the drives.
std::vector<std::string> queues_of_weights(const Plan& plan, TaskKind reader) {
  std::vector<std::string> queues;
  for (const Task& task : plan.tasks) {
    if (task.kind != TaskKind::copy) continue;
    const ResourceId queue = task.resource;
    const InstanceId to = task.writes.front();
    const bool from_drive =
        plan.places[plan.instances[task.reads.front()].place].kind == PlaceKind::drive;
    if (!from_drive || plan.values[plan.instances[to].value].kind != ValueKind::weight) continue;
    const bool is_read = std::ranges::any_of(plan.tasks, [&](const Task& other) {
      return other.kind == reader && std::ranges::count(other.reads, to) > 0;
    });
    if (is_read) queues.push_back(plan.resources[queue].name);
  }
  return queues;
}

PlanQuestion question_with_drive() {
  PlanQuestion question = sample_question({.layers = 3}, {}, 2);
  add_drive(question, 1_GiB, 1e9);
  question.clips = true;
  return question;
}

// The sample's device computes on the host's two cores.
TEST(Homes, ADriveThatTakesCoresSlowsDownWhatComputes) {
  PlanQuestion question = question_with_drive();
  question.host_budget = 512_KiB;  // the least, but for a little
  question.strategy = "fuyou";
  use_round_costs(question);
  const Micros free = must_fit(question).expected;
  question.machine.drives.front().cores = 1.5;
  EXPECT_GT(must_fit(question).expected, free);
}

// Of the host's two cores, while the drive reads.
TEST(Homes, ADriveTakesWhatKernelsOnAllCoresLeaveIdle) {
  PlanQuestion question = question_with_drive();
  question.machine.drives.front().cores = 0.125;
  question.profile.compute_cores = 1.5;
  const DriveArray array = drive_array(question, make_chain(question));
  const auto drawn = [&](int threads) {
    question.machine.devices.front().threads = threads;
    Plan plan;
    const Queues queues = add_queues(plan, question, 1, &array);
    double cores = 0;
    for (const Draw& draw : plan.resources[queues.drives->states_read].draws) {
      if (plan.pools[draw.pool].name == "cores") cores += draw.rate;
    }
    return cores;
  };
  EXPECT_EQ(drawn(2), 0.125 + 0.5);
  EXPECT_EQ(drawn(1), 0.125) << "the other core is free";
}

// 137 M parameters, DRAM for a share of their states; no clipping and no drive.
PlanQuestion question_of_137m(double share) {
  PlanQuestion question;
  question.model = model_of({"137m", 512, 40, 8, 8, 1408, 8192});
  question.machine = sample_machine({});
  question.machine.devices.front().memory = 200_MiB;
  question.machine.host.memory = 8_GiB;
  question.micro_batches = 1;
  question.sequence = 64;
  question.precision = Precision::fp32;
  question.clips = false;
  question.host_budget = Bytes{static_cast<std::int64_t>(share * as_double(states_of(question)))};
  question.profile =
      estimate_profile(question.model, question.machine, question.precision, {1, 64});
  question.strategy = "mobius";
  question.options.without = pass_name::kBlocks;
  return question;
}

PlanQuestion question_beside_slow_drive(double share) {
  PlanQuestion question = question_of_137m(share);
  add_drive(question, 8_GiB, 400e6);
  return question;
}

// Sums of deep blocks wait, so that the last updates are of states on the drive, which it moves
// while the next forward runs.
TEST(Homes, WithoutClippingDrivesMoveInTheNextForward) {
  const Plan plan = must_fit(question_beside_slow_drive(0.75)).plan;
  std::vector<BlockId> updated;
  for (const Task& task : plan.tasks) {
    const bool on_host = plan.places[plan.resources[task.resource].place].kind == PlaceKind::host;
    if (task.kind == TaskKind::update && on_host) updated.push_back(task.block);
  }
  const auto on_drive = [&](BlockId block) {
    return std::ranges::any_of(plan.instances, [&](const Instance& instance) {
      const Value& value = plan.values[instance.value];
      return value.kind == ValueKind::state && value.block == block &&
             plan.places[instance.place].kind == PlaceKind::drive;
    });
  };
  ASSERT_GE(updated.size(), 2);
  EXPECT_GT(updated.back(), BlockId(40));
  EXPECT_TRUE(on_drive(updated.back()));
}

// What forward keeps may go to the drive, though no states rest there whose updates could wait.
TEST(Homes, WithoutClippingDramMayHoldAllBesideADrive) {
  expect_promises_hold(must_fit(question_beside_slow_drive(2)));
}

// All values of the kind that lie in such places at some time.
Bytes bytes_in(const Plan& plan, PlaceKind place, ValueKind kind) {
  Bytes bytes;
  for (const Instance& instance : plan.instances) {
    const Value& value = plan.values[instance.value];
    if (value.kind == kind && plan.places[instance.place].kind == place) bytes += value.bytes;
  }
  return bytes;
}

// A sum that the next device goes on with is still in DRAM then, where micro-batches need one round
// of the devices: the drive gets whole ones alone.
TEST(Homes, SumsThatDevicesPassOnAreNotWrittenToTheDrive) {
  for (const char* strategy : {"zero", "harmony-dp"}) {
    SCOPED_TRACE(strategy);
    PlanQuestion question = question_beside_slow_drive(0.75);
    question.machine.devices = sample_machine({.devices = 2}).devices;
    question.micro_batches = 2;
    question.clips = true;
    question.strategy = strategy;
    question.options.activations = ActivationRule::recompute;
    const Planned planned = must_fit(with_estimated_profile(question));
    expect_promises_hold(planned);
    EXPECT_GT(bytes_in(planned.plan, PlaceKind::drive, ValueKind::gradient), 0_B);
  }
}

// Beside states of 12 bytes per parameter sums take 4.
TEST(HomesWithoutDrives, SumsThatWaitForNothingPassThroughDramInTurn) {
  for (const bool clips : {false, true}) {
    SCOPED_TRACE(clips);
    PlanQuestion question = question_of_137m(1.5);
    question.clips = clips;
    const Planned roomy = must_fit(question);
    EXPECT_FALSE(roomy.plan.norm_first);
    question.host_budget = question_of_137m(1.1).host_budget;
    const Planned planned = must_fit(question);
    expect_promises_hold(planned);
    EXPECT_EQ(planned.plan.norm_first, clips);
    EXPECT_GT(bytes_in(planned.plan, PlaceKind::host, ValueKind::gradient),
              question.host_budget - bytes_in(planned.plan, PlaceKind::host, ValueKind::state) -
                  bytes_in(planned.plan, PlaceKind::host, ValueKind::weight));
    // In units of a forward: two backwards that recompute, in place of one that does not.
    EXPECT_LT(planned.expected, roomy.expected * (clips ? 7.0 / 3 : 1.0) * 1.1);
  }
}

TEST(HomesWithoutDrives, ADriveBesideThemHoldsNoSums) {
  const Planned planned = must_fit(question_of_137m(1.1));
  const Planned beside = must_fit(question_beside_slow_drive(1.1));
  for (const ValueKind kind : {ValueKind::gradient, ValueKind::state, ValueKind::weight}) {
    EXPECT_EQ(bytes_in(beside.plan, PlaceKind::drive, kind), 0_B);
  }
  EXPECT_LE(beside.expected, planned.expected);
}

TEST(HomesWithoutDrives, DevicesHoldWhatDramDoesNot) {
  PlanQuestion question = question_of_137m(0.8);
  EXPECT_TRUE(std::holds_alternative<DoesNotFit>(make_plan(question)));
  Micros before{std::numeric_limits<double>::infinity()};
  for (const Bytes memory : {600_MiB, 1200_MiB}) {
    question.machine.devices.front().memory = memory;
    const Planned planned = must_fit(question);
    expect_promises_hold(planned);
    EXPECT_GT(bytes_in(planned.plan, PlaceKind::device, ValueKind::state), 150_MiB);
    EXPECT_LE(planned.expected, before);
    before = planned.expected;
  }
}

// Stages of one block would leave two of the devices without an MLP, and two thirds of all bytes
// are theirs.
TEST(HomesWithoutDrives, SeveralDevicesHoldEvenShares) {
  PlanQuestion question = question_of_137m(0.5);
  question.machine.devices = sample_machine({.devices = 4}).devices;
  for (MachineDevice& device : question.machine.devices) device.memory = 320_MiB;
  question.profile =
      estimate_profile(question.model, question.machine, question.precision, {1, 64});
  expect_promises_hold(must_fit(question));
}

// 7B on four devices whose memory holds half of its states. With room for any two neighbouring
// visits beside them, as where much has to pass, a quarter of the memory is states.
TEST(PackedHomes, SmallDevicesHoldMoreWhereLittleHasToPass) {
  PlanQuestion question = realistic_question(1);
  question.model = model_of({"7b", 3584, 28, 28, 4, 18944, 152064});
  question.machine.host.memory = question.host_budget = 128_GiB;
  question.machine.drives.clear();
  question.machine.devices.resize(1);
  for (int d = 1; d < 4; ++d) {
    MachineDevice device = question.machine.devices.front();
    device.name = "gpu" + std::to_string(d);
    device.index = d;
    device.root = d % 2;
    question.machine.devices.push_back(device);
  }
  question.micro_batches = 8;
  question.clips = false;
  question.strategy = "mobius";
  question = with_device_memory(question, 12_GiB);
  const Planned planned = must_fit(question);
  expect_promises_hold(planned);
  EXPECT_GT(bytes_in(planned.plan, PlaceKind::device, ValueKind::state), 24_GiB);
}

TEST(Homes, UpdatesThatWaitCanReadWeightsApart) {
  const PlanQuestion question = question_with_drive();
  const Chain chain = make_chain(question);
  std::mt19937 random(1);
  StreamSchedule schedule;
  schedule.strategy = "mobius";
  schedule.visits = random_visits(chain, 1, 2, random);
  rest_all_on_drives(question, chain, schedule);
  for (const bool apart : {false, true}) {
    schedule.updates_read_apart = apart;
    Plan plan = write_stream_plan(question, chain, schedule);
    order_accesses(plan);
    const std::optional<Violation> violation = verify(plan);
    ASSERT_FALSE(violation) << violation->message;
    const std::vector<std::string> queues = queues_of_weights(plan, TaskKind::update);
    ASSERT_GT(queues.size(), 0u);
    const std::string expected = apart ? "ssd0.states_read" : "ssd0.weights_read";
    EXPECT_EQ(std::ranges::count(queues, expected), std::ssize(queues)) << apart;
  }
}

}  // namespace
}  // namespace ferry
