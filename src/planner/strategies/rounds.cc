#include "planner/strategies/rounds.h"

#include <algorithm>

#include "planner/costs/queues.h"

namespace ferry {

int most_rounds_hidden(const PlanQuestion& question, const Chain& chain) {
  Bytes up, down;  // in a round: weights for both passes, and sums that one after another adds to
  Micros compute;  // in the step
  for (const BlockId b : chain.blocks.ids()) {
    const ChainBlock& block = chain.blocks[b];
    const Bytes weights = chain.blocks[weight_owner(chain, b.number())].weights;
    up += weights * 2 + block.gradients;
    down += block.gradients;
    compute +=
        ((has_forward(block) ? block.forward : Micros{}) + block.backward) * question.micro_batches;
  }
  const JointRates links = joint_rates(question);
  double round = std::max(as_double(up) / links.up, as_double(down) / links.down);
  if (const auto dram = dram_rate(question)) round = std::max(round, as_double(up + down) / *dram);
  const double devices = static_cast<double>(question.machine.devices.size());
  const double rounds = compute.seconds() / devices / round;
  return static_cast<int>(std::clamp<double>(rounds, 1, question.micro_batches));
}

std::vector<int> round_counts(int most) {
  std::vector<int> counts;
  for (int rounds = 2; rounds < most; rounds *= 2) counts.push_back(rounds);
  if (most > 1) counts.push_back(most);
  return counts;
}

}  // namespace ferry
