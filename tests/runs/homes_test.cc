// Values at home anywhere: in DRAM, on devices, on drives. Whatever a plan rests where, and
// whatever it keeps of forward where, training gives the bits of one device that holds everything.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>

#include "base/error.h"
#include "data/scratch_folder.h"
#include "plan/verify.h"
#include "planner/costs/chain.h"
#include "planner/write/edges.h"
#include "planner/write/residence.h"
#include "planner/write/sample_schedules.h"
#include "planner/write/stream_plan.h"
#include "report/report.h"
#include "store/faulty_drive.h"
#include "train/divergence.h"
#include "training_sample.h"

namespace ferry {
namespace {

enum class Drives { none, some };

/// Of what is at home on no device, some rests on drives; of states all pieces, or all but some.
void put_on_drives(const Chain& chain, std::vector<BlockHome>& homes, std::mt19937& random) {
  for (const BlockId b : chain.blocks.ids()) {
    BlockHome& home = homes[b.index()];
    if (home.on_device) continue;
    home.weight_on_drive = random() % 2 == 0;
    home.state_on_drive = random() % 3 != 0;
    const int pieces = state_pieces(chain.blocks[b]);
    const int in_dram = static_cast<int>(random() % static_cast<unsigned>(std::max(1, pieces)));
    if (home.state_on_drive) home.pieces_in_dram = in_dram;
  }
}

/// On drives states come in one to four pieces.
void cut_states(Chain& chain, Precision precision, std::mt19937& random) {
  const Bytes least{kTensorAlignment * state_element_bytes(precision)};
  for (ChainBlock& block : chain.blocks) {
    if (!block.trainable) continue;
    const std::int64_t pieces = 1 + static_cast<std::int64_t>(random() % 4);
    block.state_piece = round_up(Bytes{block.states.count / pieces}, least);
  }
}

/// What becomes of each block's activations, where its backward can go on from them.
ActivationPolicies random_policies(const Chain& chain, const StreamSchedule& schedule,
                                   std::mt19937& random) {
  constexpr ActivationPolicy kAll[] = {ActivationPolicy::keep, ActivationPolicy::swap_to_host,
                                       ActivationPolicy::swap_to_drive,
                                       ActivationPolicy::recompute};
  const KeptSlots slots = kept_slots(chain, schedule);
  ActivationPolicies policies = keep_none(chain);
  for (const BlockId b : policies.ids()) {
    const ActivationPolicy policy = kAll[random() % std::size(kAll)];
    if (chain.blocks[b].saved > 0_B && slots[b] > 0) policies[b] = policy;
  }
  return policies;
}

/// What is kept serves one backward.
ActivationPolicies without_those_again(ActivationPolicies policies, int again_from) {
  for (const BlockId b : policies.ids()) {
    if (b.number() >= again_from) policies[b] = ActivationPolicy::recompute;
  }
  return policies;
}

/// Through DRAM in turn, those of none, of some or of all blocks, a tied head's among them; without
/// drives those that wait for nothing.
void pass_sums(const PlanQuestion& asked, const Chain& chain, Drives drives,
               StreamSchedule& schedule, std::mt19937& random) {
  const Residence residence(asked, chain, schedule);
  const unsigned of_three = random() % 4;
  for (const BlockId b : chain.blocks.ids()) {
    const bool waits = residence.sum_waits_on_host(b.number());
    const bool passes = random() % 3 < of_three && (drives == Drives::some || !waits);
    schedule.homes[b.index()].sum_passes = passes;
    schedule.homes[b.index()].sum_on_drive = passes && waits;
  }
}

StreamSchedule random_schedule(const PlanQuestion& asked, const Chain& chain, Drives drives,
                               std::mt19937& random) {
  const int devices = static_cast<int>(asked.machine.devices.size());
  StreamSchedule schedule;
  schedule.strategy = "mobius";
  schedule.devices = devices;
  schedule.visits = random_visits(chain, devices, asked.micro_batches, random);
  schedule.homes = random_homes(chain, random);
  schedule.activation_slots = kLeastActivationSlots + static_cast<int>(random() % 20);
  schedule.spare_slots = static_cast<int>(random() % 3);
  schedule.spare_crossings = static_cast<int>(random() % 3);
  schedule.updates_as_landed = random() % 2 == 0;
  schedule.updates_ahead = static_cast<int>(random() % (chain.size() + 1));
  if (asked.norm_first && random() % 4 != 0) {
    schedule.again_from = static_cast<int>(random() % chain.size());
  }
  if (drives == Drives::some) put_on_drives(chain, schedule.homes, random);
  pass_sums(asked, chain, drives, schedule, random);
  if (drives == Drives::none) return schedule;
  schedule.activations_on_drive.resize(chain.size());
  for (std::size_t b = 1; b < chain.size(); ++b) {
    schedule.activations_on_drive[b] = random() % 2 == 0;
  }
  const auto count = [&] { return 1 + static_cast<int>(random() % 3); };
  schedule.staging.states = count();
  schedule.staging.pieces = static_cast<int>(random() % 4);
  schedule.staging.weights = count();
  schedule.staging.sums = count();
  schedule.staging.activations = 2 * count();
  schedule.policies = random_policies(chain, schedule, random);
  if (asked.norm_first) {
    schedule.policies = without_those_again(std::move(schedule.policies), schedule.again_from);
  }
  return schedule;
}

struct SumsOf {
  int micro_batches = kSampleMicroBatches;
  Precision gradients = Precision::fp32;
};

PlanQuestion random_question(std::mt19937& random, int devices, const SumsOf& sums) {
  PlanQuestion asked = random() % 2 == 0 ? tied_question("resident", devices, sums.micro_batches)
                                         : training_question(devices, sums.micro_batches);
  asked.gradients = sums.gradients;
  set_device_budgets(asked, 64_MiB);
  asked.clips = random() % 2 == 0;
  asked.strategy = "resident";
  return asked;
}

Plan plan_of(const PlanQuestion& asked, const Chain& chain, const StreamSchedule& schedule) {
  Plan plan = write_as_in_short_dram(asked, chain, schedule);
  order_accesses(plan);
  require_verified(plan, "the sample");
  return plan;
}

void expect_equal(const Outcome& outcome, const Outcome& resident) {
  for (const Hazard& hazard : outcome.hazards) ADD_FAILURE() << to_string(hazard);
  EXPECT_TRUE(outcome.drains.empty());
  EXPECT_EQ(outcome.losses, resident.losses);
  EXPECT_EQ(outcome.weights, resident.weights);
}

/// Random visits and homes beside one device in memory; what the latter gave.
Outcome expect_bits_of_one_device(unsigned seed, const SumsOf& sums) {
  std::mt19937 random(seed);
  const int devices = 1 << random() % 3;
  const PlanQuestion asked = random_question(random, devices, sums);
  Outcome resident = run(asked, planned(asked));
  const Chain chain = make_chain(asked);
  const StreamSchedule schedule = random_schedule(asked, chain, Drives::none, random);
  expect_equal(run(asked, plan_of(asked, chain, schedule)), resident);
  return resident;
}

TEST(StepRunnerWithHomes, GivesTheBitsOfOneDeviceWhereverValuesRest) {
  for (unsigned seed = 0; seed < 24; ++seed) {
    SCOPED_TRACE(seed);
    expect_bits_of_one_device(seed, {});
  }
}

// A sum is rounded once per block and step: by the backward that completes it where R leaves for
// the host or waits, by the update where a device updates from G.
TEST(StepRunnerWithHomes, RoundedSumsGiveTheBitsOfOneDeviceWhereverTheyAreRounded) {
  constexpr std::array kCounts = {1, 3, 4};
  for (unsigned seed = 100; seed < 124; ++seed) {
    SCOPED_TRACE(seed);
    expect_bits_of_one_device(seed, {kCounts[seed % kCounts.size()], Precision::bf16});
  }
}

TEST(StepRunnerWithHomes, RoundedSumsGiveOtherBits) {
  const Outcome one = expect_bits_of_one_device(3, {});
  const Outcome other = expect_bits_of_one_device(3, {.gradients = Precision::bf16});
  ASSERT_EQ(one.losses.size(), 4U);
  EXPECT_EQ(one.losses.front(), other.losses.front());  // forward takes weights as they are
  EXPECT_NE(one.losses.back(), other.losses.back());
  EXPECT_NEAR(one.losses.back(), other.losses.back(), 1e-3);
}

int count_redos(const Plan& plan) {
  return static_cast<int>(std::ranges::count(plan.tasks, TaskKind::redo, &Task::kind));
}

int count_refreshes(const Plan& plan) {
  return static_cast<int>(std::ranges::count(plan.tasks, true, &Task::refreshes));
}

/// Some steps are clipped and some are not.
double limit_between_norms(const PlanQuestion& asked, const Plan& plan) {
  std::vector<double> norms = run(asked, plan).norms;
  std::ranges::sort(norms);
  return (norms.at(1) + norms.at(2)) / 2;
}

TEST(StepRunnerWithUpdatesAhead, GivesTheBitsOfUpdatesBehindTheNorm) {
  int ahead = 0, refreshed = 0, clipped = 0, others = 0;
  for (unsigned seed = 200; seed < 216; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const Precision gradients = random() % 2 == 0 ? Precision::bf16 : Precision::fp32;
    PlanQuestion asked = random_question(random, 1 << random() % 3, {3, gradients});
    asked.clips = true;
    const Plan one_device = planned(asked);
    const double limit = limit_between_norms(asked, one_device);
    const Outcome resident = run(asked, one_device, {}, {.clip = limit});
    const Chain chain = make_chain(asked);
    const StreamSchedule schedule = random_schedule(asked, chain, Drives::none, random);
    const Plan plan = plan_of(asked, chain, schedule);
    const Outcome found = run(asked, plan, {}, {.clip = limit});
    expect_equal(found, resident);
    EXPECT_EQ(found.norms, resident.norms);
    if (count_redos(plan) == 0) continue;
    ++ahead;
    if (count_refreshes(plan) > 0) ++refreshed;
    for (const double norm : found.norms) ++(norm > limit ? clipped : others);
  }
  EXPECT_GT(ahead, 8);
  EXPECT_GT(refreshed, 4);
  EXPECT_GT(clipped, 8);
  EXPECT_GT(others, 8);
}

/// All W stay on the device and come up in the step that updates them.
Plan plan_with_renewals(const PlanQuestion& asked, const Chain& chain) {
  std::mt19937 random(1);
  StreamSchedule schedule = random_schedule(asked, chain, Drives::none, random);
  schedule.homes.assign(chain.size(), {.weight_stays = true, .renews_at_once = true});
  return plan_of(asked, chain, schedule);
}

enum class Between { nothing, another_plan, what_nobody_tells };

/// The weights after four steps, the last two of them behind something that may write over what
/// came up ahead.
std::vector<float> weights_after(const PlanQuestion& asked, const Plan& plan, Between between) {
  Training training(asked, plan, /*checked=*/false);
  Observer nobody_listens;
  drive(plan, {0, 2}, training.runner, nobody_listens);
  for (const Task& task : plan.tasks) {
    if (between == Between::nothing || !task.refreshes) continue;
    training.runner.binding().bytes(task.writes.front()).fill_(0);
  }
  for (const PlaceId id : training.places.ids()) {  // the runner's streams wait for no other
    if (const auto& device = training.places[id].device) device->synchronize();
  }
  if (between == Between::another_plan) training.runner.disturbed(2);
  drive(plan, {2, 2}, training.runner, nobody_listens);
  return weights_of(asked.model, training.states);
}

TEST(StepRunnerWithUpdatesAhead, RefreshesAllWhereAnotherPlanRanBetweenSteps) {
  for (const bool clips : {true, false}) {
    SCOPED_TRACE(clips);
    PlanQuestion asked = training_question(1);
    set_device_budgets(asked, 64_MiB);
    asked.clips = clips;
    const Chain chain = make_chain(asked);
    const Plan plan = plan_with_renewals(asked, chain);
    ASSERT_EQ(count_refreshes(plan), static_cast<int>(chain.size()));
    const auto weights = weights_after(asked, plan, Between::nothing);
    EXPECT_EQ(weights_after(asked, plan, Between::another_plan), weights);
    EXPECT_NE(weights_after(asked, plan, Between::what_nobody_tells), weights);  // not copied
  }
}

std::vector<std::uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<std::uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

TEST(StepRunnerWithUpdatesAhead, AreTakenBackWhereTheNormIsNotFinite) {
  PlanQuestion asked = training_question(1);
  set_device_budgets(asked, 64_MiB);
  const Chain chain = make_chain(asked);
  std::mt19937 random(1);
  StreamSchedule schedule = random_schedule(asked, chain, Drives::none, random);
  schedule.homes.clear();
  schedule.updates_ahead = static_cast<int>(chain.size());
  const Plan plan = plan_of(asked, chain, schedule);
  ASSERT_EQ(count_redos(plan), static_cast<int>(chain.size()));
  Training training(asked, plan, /*checked=*/true);
  const std::array<float, 1> bad = {std::numeric_limits<float>::quiet_NaN()};
  training.states.write(StatePart::master, {BlockId(0), 0}, bad);
  const auto before = bits_of(weights_of(asked.model, training.states));
  Observer nobody_listens;
  EXPECT_THROW(drive(plan, {0, 4}, training.runner, nobody_listens), Diverged);
  EXPECT_FALSE(is_untouched(plan, training.runner.last_runs(), 0));
  EXPECT_NE(bits_of(weights_of(asked.model, training.states)), before);
  training.runner.take_back(0);
  EXPECT_TRUE(is_untouched(plan, training.runner.last_runs(), 0));
  EXPECT_EQ(bits_of(weights_of(asked.model, training.states)), before);
}

/// Gives the machine two drives, of unlike rates.
void add_drives(Machine& machine, const ScratchFolder& folder) {
  for (const char* name : {"ssd0", "ssd1"}) {
    Drive drive;
    drive.name = name;
    drive.path = folder.path() / name;
    std::filesystem::create_directories(drive.path);
    drive.capacity = 1_GiB;
    drive.read = {machine.drives.empty() ? 3e9 : 1e9};
    drive.write = {1e9};
    machine.drives.push_back(drive);
  }
}

class StepRunnerWithDrives : public testing::TestWithParam<int> {};

TEST_P(StepRunnerWithDrives, GivesTheBitsOfOneDeviceWhateverRestsOnThem) {
  const ScratchFolder folder;
  int in_pieces = 0, in_part = 0;
  for (unsigned seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(100 + seed);
    const int devices = 1 + static_cast<int>(random() % 2);
    const Precision gradients = random() % 3 == 0 ? Precision::bf16 : Precision::fp32;
    PlanQuestion asked = random_question(random, devices, {GetParam(), gradients});
    const Outcome resident = run(asked, planned(asked));
    add_drives(asked.machine, folder);
    Chain chain = make_chain(asked);
    cut_states(chain, asked.precision, random);
    StreamSchedule schedule = random_schedule(asked, chain, Drives::some, random);
    if (!schedule.uses_drives()) schedule.homes.back().state_on_drive = true;
    const Plan plan = plan_of(asked, chain, schedule);
    in_pieces += std::ranges::any_of(plan.tasks, [](const Task& task) { return task.piece > 0; });
    in_part += std::ranges::any_of(schedule.homes,
                                   [](const BlockHome& home) { return home.pieces_in_dram > 0; });
    FaultyDrives hostile;  // in memory; of what waits together the last ends first
    const bool in_memory = seed % 2 == 0;
    const Outcome found =
        run(asked, plan, in_memory ? BoxAccess{.engine = hostile.engines()} : BoxAccess{});
    expect_equal(found, resident);
    const DriveUse use = drive_use(plan).front();  // per step, as the plan has it
    EXPECT_EQ(found.drives.read, 4 * use.read);
    EXPECT_EQ(found.drives.written, 4 * use.written);
  }
  EXPECT_GT(in_pieces, 6);
  EXPECT_GT(in_part, 6);
}

INSTANTIATE_TEST_SUITE_P(MicroBatches, StepRunnerWithDrives, testing::Values(1, 3, 4));

class StepRunnerWithNormFirst : public testing::TestWithParam<int> {};

TEST_P(StepRunnerWithNormFirst, GivesTheBitsOfUpdatesBehindTheNorm) {
  const ScratchFolder folder;
  int clipped = 0, others = 0, refreshed = 0, waiting = 0;
  for (unsigned seed = 300; seed < 316; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const Precision gradients = random() % 3 == 0 ? Precision::bf16 : Precision::fp32;
    PlanQuestion asked = random_question(random, 1 << random() % 3, {GetParam(), gradients});
    asked.clips = true;
    const Plan one_device = planned(asked);
    const double limit = limit_between_norms(asked, one_device);
    const Outcome resident = run(asked, one_device, {}, {.clip = limit});
    asked = with_norm_first(asked);
    const Drives drives = seed % 2 == 0 ? Drives::some : Drives::none;
    if (drives == Drives::some) add_drives(asked.machine, folder);
    const Chain chain = make_chain(asked);
    const Plan plan = plan_of(asked, chain, random_schedule(asked, chain, drives, random));
    const Outcome found = run(asked, plan, {}, {.clip = limit});
    expect_equal(found, resident);
    EXPECT_EQ(found.norms, resident.norms);
    if (count_refreshes(plan) > 0) ++refreshed;
    if (plan.again_from > 0) ++waiting;
    for (const double norm : found.norms) ++(norm > limit ? clipped : others);
  }
  EXPECT_GT(clipped, 16);
  EXPECT_GT(others, 16);
  EXPECT_GT(refreshed, 4);
  EXPECT_GT(waiting, 8);
}

INSTANTIATE_TEST_SUITE_P(MicroBatches, StepRunnerWithNormFirst, testing::Values(1, 3, 4));

/// One device, clipping, and drives on which weights, states and sums all rest.
struct Sample {
  Sample() {
    set_device_budgets(asked, 64_MiB);
    asked.clips = true;
    add_drives(asked.machine, folder);
    const Chain chain = make_chain(asked);
    std::mt19937 random(3);
    StreamSchedule schedule = random_schedule(asked, chain, Drives::some, random);
    schedule.homes.assign(chain.size(), {.weight_on_drive = true,
                                         .state_on_drive = true,
                                         .sum_passes = true,
                                         .sum_on_drive = true});
    plan = plan_of(asked, chain, schedule);
  }

  const ScratchFolder folder;
  PlanQuestion asked = training_question(1);
  Plan plan;
};

bool has_both(const Hazard& hazard, const std::string& one, const std::string& other) {
  const std::string text = to_string(hazard);
  return text.find(one) != std::string::npos && text.find(other) != std::string::npos;
}

// Whatever the timing: a device that does not wait for a drive, or a drive for a device.
TEST(Drives, EveryDroppedDependencyOnADriveIsReported) {
  const Sample sample;
  const auto place_of = [&](TaskId id) {
    const Plan& plan = sample.plan;
    return plan.places[plan.resources[plan.tasks[id].resource].place].kind;
  };
  int dropped = 0;
  for (const TaskId later : sample.plan.tasks.ids()) {
    const auto& after = sample.plan.tasks[later].after;
    const auto earlier = std::ranges::find_if(after, [&](TaskId id) {
      const PlaceKind one = place_of(id), other = place_of(later);
      return one != other && one != PlaceKind::host && other != PlaceKind::host;
    });
    if (earlier == after.end() || later.index() % 7 != 0) continue;
    Plan plan = sample.plan;
    erase(plan.tasks[later].after, *earlier);
    if (!verify(plan)) continue;  // another dependency implies it
    ++dropped;
    const std::vector<Hazard> hazards = hazards_of(sample.asked, plan);
    const std::string task = plan.tasks[later].name, awaited = plan.tasks[*earlier].name;
    SCOPED_TRACE(task + " after " + awaited);
    const auto found = std::ranges::find_if(
        hazards, [&](const Hazard& hazard) { return has_both(hazard, task, awaited); });
    EXPECT_NE(found, hazards.end())
        << (hazards.empty() ? "no hazard at all" : to_string(hazards.front()));
    if (dropped == 6) break;
  }
  EXPECT_GT(dropped, 2);
}

/// What four steps come to when the drives meet the fault: an error's text, or nothing and the
/// bits of `whole`.
std::string trial(const Sample& sample, const DriveFaults& faults, const Outcome& whole,
                  std::int64_t& requests) {
  FaultyDrives drives(faults);
  std::string error;
  try {
    const Outcome found =
        run(sample.asked, sample.plan, {drives.engines(), std::chrono::milliseconds(1000)});
    expect_equal(found, whole);
  } catch (const ResourceError& thrown) {
    error = thrown.what();
  }
  requests = drives.requests();
  return error;
}

TEST(Drives, AFaultIsSurvivedOrNamedAndNeverAWrongNumber) {
  const Sample sample;
  std::int64_t requests = 0;
  PlanQuestion in_memory = sample.asked;
  in_memory.machine.drives.clear();
  in_memory.strategy = "resident";
  const Outcome whole = run(in_memory, planned(in_memory));
  ASSERT_EQ(trial(sample, {}, whole, requests), "");
  ASSERT_GT(requests, 100);
  for (const DriveFault fault : {DriveFault::fail, DriveFault::shorten, DriveFault::tear,
                                 DriveFault::delay, DriveFault::forget}) {
    for (const std::int64_t part : {0, 3, 6, 9}) {  // tenths of the run, loading included
      SCOPED_TRACE(std::to_string(static_cast<int>(fault)) + " " + std::to_string(part));
      std::int64_t begun = 0;
      const std::string error =
          trial(sample, {.fault = fault, .first = requests * part / 10}, whole, begun);
      const bool harmless = fault == DriveFault::shorten || fault == DriveFault::delay;
      EXPECT_EQ(error.empty(), harmless) << error;
      if (harmless) continue;
      EXPECT_NE(error.find("drives"), std::string::npos) << error;
      EXPECT_NE(error.find("ssd"), std::string::npos) << error;  // the folder
      if (part >= 6) {
        EXPECT_EQ(error.find("task "), 0U) << error;
      }
    }
  }
}

/// A run that a drive's fault has ended: the steps done, and what is left of the weights where no
/// update of the next step had begun.
struct Ended {
  int done = 0;
  std::vector<float> weights;  // empty: it had
};

Ended end_of(const Sample& sample, const DriveFaults& faults, int steps) {
  FaultyDrives drives(faults);
  Training training(sample.asked, sample.plan, /*checked=*/true, {.engine = drives.engines()});
  Losses losses(training.runner);
  try {
    drive(sample.plan, {0, steps}, training.runner, losses);
  } catch (const ResourceError&) {
  }
  Ended ended{static_cast<int>(losses.found.size()), {}};
  training.runner.take_back(ended.done);
  if (is_untouched(sample.plan, training.runner.last_runs(), ended.done)) {
    ended.weights = weights_of(sample.asked.model, training.states);
  }
  return ended;
}

TEST(Drives, WhatNoUpdateTouchedBeforeAFaultIsTheStateOfTheStepsDone) {
  const Sample sample;
  constexpr int kSteps = 3;
  std::vector<std::vector<float>> whole;  // behind so many steps
  for (int steps = 0; steps <= kSteps; ++steps) {
    Training training(sample.asked, sample.plan, /*checked=*/true);
    Observer nobody_listens;
    if (steps > 0) drive(sample.plan, {0, steps}, training.runner, nobody_listens);
    whole.push_back(weights_of(sample.asked.model, training.states));
  }
  FaultyDrives counted;
  std::int64_t loading = 0;
  {
    Training training(sample.asked, sample.plan, /*checked=*/true, {.engine = counted.engines()});
    loading = counted.requests();
    Observer nobody_listens;
    drive(sample.plan, {0, kSteps}, training.runner, nobody_listens);
  }
  const std::int64_t steps = counted.requests() - loading;
  int untouched = 0, touched = 0;
  constexpr int kFaults = 40;
  for (int part = 0; part < kFaults; ++part) {
    SCOPED_TRACE(part);
    const Ended ended = end_of(
        sample, {.fault = DriveFault::fail, .first = loading + steps * part / kFaults}, kSteps);
    if (ended.weights.empty()) {
      ++touched;
      continue;
    }
    ++untouched;
    EXPECT_EQ(ended.weights, whole[static_cast<std::size_t>(ended.done)]);
  }
  EXPECT_GT(untouched, 4);
  EXPECT_GT(touched, 4);
}

/// Ends a step when so many of its tasks have finished.
class BreakOff final : public Observer {
 public:
  explicit BreakOff(int tasks) : left_(tasks) {}
  void finished(TaskRun /*run*/) override {
    if (--left_ == 0) throw std::runtime_error("broken off");
  }

 private:
  int left_;
};

// Copies that drives had ended and nobody had taken were once told of in the next step.
TEST(Drives, AStepThatWasBrokenOffLeavesNothingInFlight) {
  const Sample sample;
  Observer nobody_listens;
  std::vector<float> whole;
  {
    Training once(sample.asked, sample.plan, /*checked=*/false);
    drive(sample.plan, {0, 1}, once.runner, nobody_listens);
    whole = weights_of(sample.asked.model, once.states);
  }
  const int tasks = static_cast<int>(sample.plan.tasks.size());
  int again = 0;
  for (int part = 0; part < 16; ++part) {
    SCOPED_TRACE(part);
    FaultyDrives drives;
    Training training(sample.asked, sample.plan, /*checked=*/false, {.engine = drives.engines()});
    BreakOff broken(1 + tasks * part / 16);
    EXPECT_THROW(drive(sample.plan, {0, 1}, training.runner, broken), std::runtime_error);
    training.runner.take_back(0);
    if (!is_untouched(sample.plan, training.runner.last_runs(), 0)) continue;
    ++again;
    drive(sample.plan, {0, 1}, training.runner, nobody_listens);
    EXPECT_EQ(weights_of(sample.asked.model, training.states), whole);
  }
  EXPECT_GT(again, 3);
}

}  // namespace
}  // namespace ferry
