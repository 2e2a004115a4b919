#include "planner/strategies/coarse_step.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "spec/pass_names.h"

namespace ferry {
namespace {

constexpr int kLeastMicroBatches = 2;
constexpr int kEnoughMicroBatches = 4;  // with fewer, less overlaps than in the step
constexpr int kEnoughPerDevice = 2;     // likewise

Bytes scaled(Bytes bytes, double by) {
  return {static_cast<std::int64_t>(std::ceil(as_double(bytes) * by))};
}

}  // namespace

std::optional<int> coarse_micro_batches(const PlanQuestion& question, std::ptrdiff_t tasks,
                                        std::ptrdiff_t searchable) {
  if (tasks <= searchable) return std::nullopt;
  const int devices = static_cast<int>(question.machine.devices.size());
  const int enough = std::max(kEnoughMicroBatches, kEnoughPerDevice * devices);
  const auto most = static_cast<int>(question.micro_batches * searchable / tasks);
  int micro_batches = std::min(enough, most);
  if (question.rounds > 1) {  // each has as many
    const int in_round = std::min(micro_batches, most / question.rounds);
    micro_batches = question.rounds * in_round;
  }
  if (micro_batches < kLeastMicroBatches) return std::nullopt;
  return micro_batches;
}

CoarseStep coarse_step(const PlanQuestion& question, const Chain& chain, int micro_batches) {
  FERRY_CHECK(micro_batches > 0 && micro_batches < question.micro_batches, "fewer micro-batches");
  const double by = static_cast<double>(question.micro_batches) / micro_batches;
  CoarseStep coarse{question, chain};
  coarse.question.micro_batches = micro_batches;
  coarse.question.options.without += std::string(",") + pass_name::kBlocks;
  coarse.chain.activation = scaled(chain.activation, by);
  coarse.chain.tokens = scaled(chain.tokens, by);
  for (ChainBlock& block : coarse.chain.blocks) {
    block.saved = scaled(block.saved, by);
    for (const auto time : {&ChainBlock::forward, &ChainBlock::backward,
                            &ChainBlock::saving_forward, &ChainBlock::saved_backward}) {
      block.*time = block.*time * by;
    }
  }
  return coarse;
}

StreamSchedule fine_schedule(StreamSchedule coarse, int coarse_micro_batches, int micro_batches) {
  const auto fine = [&](int count) {
    return static_cast<int>(std::int64_t{count} * micro_batches / coarse_micro_batches);
  };
  for (StageVisit& visit : coarse.visits) {
    visit.first_batch = fine(visit.first_batch);
    visit.end_batch = fine(visit.end_batch);
  }
  for (int* slots : {&coarse.activation_slots, &coarse.spare_slots, &coarse.spare_crossings,
                     &coarse.saved_slots, &coarse.staging.activations}) {
    *slots = fine(*slots);
  }
  return coarse;
}

}  // namespace ferry
