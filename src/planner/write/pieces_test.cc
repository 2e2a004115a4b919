// Optimizer states that pass through DRAM in pieces on their way from and to drives.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "plan/at_home.h"
#include "plan/verify.h"
#include "planner/sample_questions.h"
#include "planner/write/edges.h"
#include "planner/write/evaluation_schedule.h"
#include "planner/write/sample_schedules.h"
#include "planner/write/stream_plan.h"
#include "spec/layout.h"

namespace ferry {
namespace {

/// MLPs of 384 MiB of fp32 states each, attentions of 128.
PlanQuestion large_blocks() {
  PlanQuestion question = sample_question({.layers = 3, .hidden = 2048}, {}, 2);
  question.clips = false;
  question.machine.drives = {{.name = "ssd0", .capacity = 32_GiB}};
  question.machine.drives.front().read = question.machine.drives.front().write = {1e9};
  return question;
}

StreamSchedule all_on_drives(const PlanQuestion& question, const Chain& chain, int pieces) {
  std::mt19937 random(1);
  StreamSchedule schedule;
  schedule.strategy = "mobius";
  schedule.visits = random_visits(chain, 1, question.micro_batches, random);
  schedule.homes.assign(chain.size(), {.state_on_drive = true});
  schedule.staging.states = 1;
  schedule.staging.pieces = pieces;
  return schedule;
}

Plan plan_of(const PlanQuestion& question, const StreamSchedule& schedule) {
  Plan plan = write_stream_plan(question, make_chain(question), schedule);
  order_accesses(plan);
  const std::optional<Violation> violation = verify(plan);
  EXPECT_FALSE(violation) << violation->message;
  return plan;
}

TEST(Pieces, OfAllBlocksAreAboutAsLargeAndMakeUpTheirStates) {
  const Chain chain = make_chain(large_blocks());
  Bytes all, most;
  for (const ChainBlock& block : chain.blocks) {
    all += block.states;
    most = std::max(most, block.state_piece);
  }
  int cut = 0;
  for (const ChainBlock& block : chain.blocks) {
    const int pieces = state_pieces(block);
    Bytes sum;
    for (int p = 0; p < pieces; ++p) {
      EXPECT_LE(piece_bytes(block, p), block.state_piece);
      sum += piece_bytes(block, p);
    }
    EXPECT_EQ(sum, block.states);
    if (pieces == 1) continue;
    ++cut;
    EXPECT_EQ(block.state_piece.count % 4096, 0);
    EXPECT_GT(block.state_piece * 2, most);
  }
  EXPECT_GE(cut, 6);
  const Bytes page{kStatePieceElements * state_element_bytes(Precision::fp32)};
  const Bytes quarter{all.count /
                      static_cast<std::int64_t>(4 * chain.size())};  // of the mean block
  EXPECT_GT(quarter, 4_MiB);
  EXPECT_LE(most, quarter + page);
}

TEST(Pieces, SmallStatesAreWhole) {
  for (const ChainBlock& block : make_chain(sample_question({}, {}, 1)).blocks) {
    EXPECT_EQ(block.state_piece, block.states);
  }
}

// The room is that of pieces, and drives move the same bytes.
TEST(Pieces, NeedLessRoomThanTheLargestBlock) {
  const PlanQuestion question = large_blocks();
  const Chain chain = make_chain(question);
  const Bytes largest = std::ranges::max_element(chain.blocks, {}, &ChainBlock::states)->states;
  const Plan whole = plan_of(question, all_on_drives(question, chain, 0));
  const Plan pieces = plan_of(question, all_on_drives(question, chain, 2));
  const auto host = static_cast<PlaceId>(
      std::ranges::find(whole.places, PlaceKind::host, &Place::kind) - whole.places.begin());
  const Bytes piece = std::ranges::max(chain.blocks, {}, &ChainBlock::state_piece).state_piece;
  EXPECT_EQ(slots_end(whole, host) - slots_end(pieces, host), largest - piece * 2);

  const auto moved = [](const Plan& plan) {
    Bytes bytes;
    for (const Task& task : plan.tasks) {
      const bool of_drive =
          plan.places[plan.resources[task.resource].place].kind == PlaceKind::drive;
      if (of_drive) bytes += moved_bytes(task);
    }
    return bytes;
  };
  EXPECT_EQ(moved(whole), moved(pieces));
}

// Each is read, updated and written for itself, and all of them take what the whole takes, but for
// what a task takes beside.
TEST(Pieces, AreUpdatedOneByOne) {
  PlanQuestion question = large_blocks();
  question.profile.task_overhead = {10};
  const Chain chain = make_chain(question);
  const Plan plan = plan_of(question, all_on_drives(question, chain, 1));
  for (const BlockId b : chain.blocks.ids()) {
    Micros time;
    int updates = 0;
    for (const Task& task : plan.tasks) {
      if (task.kind != TaskKind::update || task.block != b) continue;
      EXPECT_EQ(task.piece, state_pieces(chain.blocks[b]) == 1 ? -1 : updates);
      ++updates;
      time += task.micros;
    }
    EXPECT_EQ(updates, state_pieces(chain.blocks[b]));
    const double beside = 10.0 * (updates - 1);
    EXPECT_NEAR(time.count, chain.blocks[b].host_update.count + beside, 1e-6) << b.number();
  }
}

// DRAM has some, which drives do not move; the homes of all are as large as before.
TEST(Pieces, SomeRestInDram) {
  const PlanQuestion question = large_blocks();
  const Chain chain = make_chain(question);
  StreamSchedule schedule = all_on_drives(question, chain, 2);
  const Plan before = plan_of(question, schedule);
  int block = 0;
  while (state_pieces(chain.blocks[block]) < 3) ++block;
  schedule.homes[block].pieces_in_dram = 2;
  const Plan plan = plan_of(question, schedule);
  const Bytes piece = chain.blocks[block].state_piece;
  for (const PlaceKind kind : {PlaceKind::host, PlaceKind::drive}) {
    const auto at = std::ranges::find(plan.places, kind, &Place::kind) - plan.places.begin();
    const Bytes more = slots_end(plan, PlaceId(static_cast<int>(at))) -
                       slots_end(before, PlaceId(static_cast<int>(at)));
    EXPECT_EQ(more, kind == PlaceKind::host ? piece * 2 : piece * -2);
  }
  std::vector<int> moved;
  for (const Task& task : plan.tasks) {
    if (task.kind != TaskKind::copy || task.block != BlockId(block)) continue;
    const Value& value = plan.values[plan.instances[task.writes.front()].value];
    if (value.kind == ValueKind::state) moved.push_back(value.piece);
  }
  std::vector<int> expected;
  for (int p = 2; p < state_pieces(chain.blocks[block]); ++p) expected.insert(expected.end(), 2, p);
  EXPECT_EQ(moved, expected) << "each is read and written";
}

// Evaluation once looked for all of them on the drives.
TEST(Pieces, AreFoundByEvaluationWhereTheyRest) {
  PlanQuestion question = large_blocks();
  const Chain chain = make_chain(question);
  StreamSchedule schedule = all_on_drives(question, chain, 2);
  int in_dram = 0;
  for (const BlockId b : chain.blocks.ids()) {
    const int pieces = std::min(in_dram++ % 3, state_pieces(chain.blocks[b]) - 1);
    schedule.homes[b.index()].pieces_in_dram = pieces;
  }
  const Plan training = plan_of(question, schedule);
  question.mode = PlanMode::evaluate;
  const Plan evaluation = plan_of(question, evaluation_schedule(training));
  const auto trained = homes_of(training);
  EXPECT_EQ(std::ranges::count_if(trained, [](const auto& home) { return home.first[0] == 'S'; }),
            std::ranges::count(training.values, ValueKind::state, &Value::kind));
  EXPECT_EQ(homes_of(evaluation), trained);
}

}  // namespace
}  // namespace ferry
