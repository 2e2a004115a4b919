#include "planner/strategies/coarse_step.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "spec/pass_names.h"

namespace ferry {
namespace {

constexpr int kLeastMicroBatches = 2;
constexpr int kEnoughMicroBatches = 4;  // with fewer, less overlaps than in the step
constexpr int kEnoughPerDevice = 2;     // likewise
constexpr int kEnoughRounds = 4;        // the first and the last are unlike the others
constexpr int kLeastRounds = 2;

Bytes scaled(Bytes bytes, double by) {
  return {static_cast<std::int64_t>(std::ceil(as_double(bytes) * by))};
}

void take_fewer_rounds(CoarseStep& coarse, int rounds) {
  const double by = static_cast<double>(rounds) / coarse.question.rounds;
  coarse.question.rounds = rounds;
  coarse.question.micro_batches = rounds * coarse.in_round;
  coarse.question.faster_than.reset();  // that is of the whole step
  for (ChainBlock& block : coarse.chain.blocks) {
    block.host_update = block.host_update * by;
    block.device_update = block.device_update * by;
  }
}

void take_larger_micro_batches(CoarseStep& coarse, int micro_batches) {
  const double by = static_cast<double>(coarse.question.micro_batches) / micro_batches;
  coarse.question.micro_batches = micro_batches;
  coarse.chain.activation = scaled(coarse.chain.activation, by);
  coarse.chain.tokens = scaled(coarse.chain.tokens, by);
  for (ChainBlock& block : coarse.chain.blocks) {
    block.saved = scaled(block.saved, by);
    for (const auto time : {&ChainBlock::forward, &ChainBlock::backward,
                            &ChainBlock::saving_forward, &ChainBlock::saved_backward}) {
      block.*time = block.*time * by;
    }
  }
}

}  // namespace

std::vector<CoarseStep> coarse_steps(const PlanQuestion& question, const Chain& chain,
                                     std::ptrdiff_t tasks, std::ptrdiff_t searchable) {
  if (tasks <= searchable) return {};
  const auto most = static_cast<int>(question.micro_batches * searchable / tasks);
  const int devices = static_cast<int>(question.machine.devices.size());
  const int in_round = batches_at_once(question);
  const int enough = std::min(in_round, std::max(kEnoughMicroBatches, kEnoughPerDevice * devices));
  const int few_rounds = std::clamp(most / in_round, kLeastRounds, kEnoughRounds);
  std::vector<CoarseStep> steps;
  const auto add = [&](int rounds, int most_in_round) {
    const int micro_batches = rounds * std::min(most_in_round, most / rounds);
    if (micro_batches < kLeastMicroBatches) return;
    CoarseStep& coarse = steps.emplace_back(question, chain, in_round);
    coarse.question.options.without += std::string(",") + pass_name::kBlocks;
    if (rounds < question.rounds) take_fewer_rounds(coarse, rounds);
    if (micro_batches < coarse.question.micro_batches) {
      take_larger_micro_batches(coarse, micro_batches);
    }
  };
  if (few_rounds < question.rounds) add(few_rounds, in_round);
  add(question.rounds, enough);
  return steps;
}

StreamSchedule fine_schedule(StreamSchedule schedule, const CoarseStep& coarse,
                             const PlanQuestion& question) {
  const int in_coarse_round = batches_at_once(coarse.question);
  const auto fine = [&](int count, int in_round) {
    return static_cast<int>(std::int64_t{count} * in_round / in_coarse_round);
  };
  std::vector<StageVisit> visits;
  for (int round = 0; round < question.rounds; ++round) {
    const int first_batch = first_of_round(question, round);
    const int in_round = first_of_round(question, round + 1) - first_batch;
    for (StageVisit visit : schedule.visits) {
      if (visit.end_batch > in_coarse_round) continue;  // the first round's are those of all
      visit.first_batch = first_batch + fine(visit.first_batch, in_round);
      visit.end_batch = first_batch + fine(visit.end_batch, in_round);
      if (visit.first_batch < visit.end_batch) visits.push_back(visit);
    }
  }
  schedule.visits = std::move(visits);
  for (int* slots : {&schedule.activation_slots, &schedule.spare_slots, &schedule.spare_crossings,
                     &schedule.saved_slots, &schedule.staging.activations}) {
    *slots = fine(*slots, coarse.in_round);
  }
  return schedule;
}

}  // namespace ferry
