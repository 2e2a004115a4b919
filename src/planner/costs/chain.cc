#include "planner/costs/chain.h"

#include <algorithm>

#include "base/error.h"
#include "planner/costs/estimate.h"
#include "spec/layout.h"

namespace ferry {
namespace {

void check_profile(const PlanQuestion& question) {
  const Profile& profile = question.profile;
  if (profile.micro_batch_size != question.micro_batch_size ||
      profile.sequence != question.sequence) {
    throw UserError(
        "profile '" + profile.name + "' is of micro-batches of " +
        std::to_string(profile.micro_batch_size) + " x " + std::to_string(profile.sequence) +
        " tokens; the job's are " + std::to_string(question.micro_batch_size) + " x " +
        std::to_string(question.sequence) + "\n  try: measure it again, or plan.profile: estimate");
  }
}

bool rounds_sums(const PlanQuestion& question) {
  return question.gradients == Precision::bf16 && question.mode == PlanMode::train;
}

const BlockProfile& profile_of(const PlanQuestion& question, const BlockSpec& block) {
  const std::string key = similarity_key(question.model, block);
  const BlockProfile* found = find_block(question.profile, key);
  if (found == nullptr) {
    throw UserError("profile '" + question.profile.name + "' has no block '" + key +
                    "'; expected one entry per kind of block of the model\n"
                    "  try: measure it again, or plan.profile: estimate");
  }
  return *found;
}

// What the profile says of a block's forward and backward.
ChainBlock passes_of(const BlockProfile& costs, Micros overhead) {
  ChainBlock result;
  result.forward_workspace = costs.forward_workspace;
  result.backward_workspace = costs.backward_workspace;
  result.forward = costs.forward + overhead;
  result.backward = costs.backward + overhead;
  result.saved = costs.saved;
  result.saving_workspace = costs.saving_workspace;
  result.saved_backward_workspace = costs.saved_backward_workspace;
  result.saving_forward = std::max(costs.forward, costs.saving_forward) + overhead;
  result.saved_backward = costs.saved_backward + overhead;
  return result;
}

ChainBlock chain_block(const PlanQuestion& question, const BlockSpec& block) {
  const BlockProfile& costs = profile_of(question, block);
  const BlockLayout layout = layout_of(block);
  const Micros overhead = question.profile.task_overhead;
  ChainBlock result = passes_of(costs, overhead);
  result.kind = block.kind;
  result.trainable = layout.elements > 0;
  result.fused = block.kind == BlockKind::head && question.mode == PlanMode::train;
  if (block.kind == BlockKind::head && question.model.tied) {
    result.reads_weight = BlockId(head_weight_owner(question.model));
  }
  result.weights = weight_bytes(layout, question.precision);
  result.states = state_bytes(layout, question.precision);
  result.gradients = gradient_bytes(gradient_layout_of(question.model, block));
  if (rounds_sums(question) && result.trainable) result.rounded = rounded_bytes(layout);
  const auto elements = static_cast<double>(layout.elements);
  result.host_update = from_seconds(elements / update_rate(question)) + overhead;
  result.device_update = device_update_time(question, layout.elements) + overhead;
  result.device_update_workspace = device_update_workspace(layout);
  return result;
}

// A block that exists on paper only: its layout is what the profile says.
ChainBlock paper_block(const PlanQuestion& question, const BlockProfile& costs) {
  const Micros overhead = question.profile.task_overhead;
  ChainBlock result = passes_of(costs, overhead);
  result.kind = BlockKind::mlp;
  result.trainable = costs.parameters > 0 && costs.weights > Bytes{};
  result.weights = costs.weights;
  if (result.trainable) {
    result.states = Bytes{costs.parameters} * state_element_bytes(question.precision);
    result.gradients = costs.gradients > Bytes{} ? costs.gradients : Bytes{costs.parameters} * 4;
    if (rounds_sums(question)) result.rounded = rounded_bytes({{}, costs.parameters});
    const auto elements = static_cast<double>(costs.parameters);
    result.host_update = from_seconds(elements / update_rate(question)) + overhead;
    result.device_update = device_update_time(question, costs.parameters) + overhead;
    result.device_update_workspace = device_update_workspace({{}, costs.parameters});
  }
  return result;
}

// The profile's chain in place of a model's. Boundaries are as large as the largest of them.
Chain paper_chain(const PlanQuestion& question) {
  Chain chain;
  for (const int at : question.profile.chain) {
    const BlockProfile& costs = question.profile.blocks[at];
    chain.blocks.push_back(paper_block(question, costs));
    chain.activation =
        std::max({chain.activation, costs.activation, costs.activation_gradient, Bytes{1}});
  }
  if (chain.size() < 2) {
    throw UserError("profile '" + question.profile.name +
                    "' has a chain of one block; a plan needs a first and a last one");
  }
  chain.blocks.front().kind = BlockKind::embedding;
  chain.blocks.back().kind = BlockKind::head;
  chain.blocks.back().fused = question.mode == PlanMode::train;
  for (const ChainBlock& block : chain.blocks) {
    if (block.trainable) continue;
    throw UserError("profile '" + question.profile.name +
                    "': a plan updates every block, so each needs 'weights' and 'parameters'; "
                    "papers.pure: true asks for a paper's program, which needs neither");
  }
  chain.tokens = tokens_bytes({question.micro_batch_size, question.sequence});
  return chain;
}

Chain model_chain(const PlanQuestion& question) {
  const BatchShape shape{question.micro_batch_size, question.sequence};
  Chain chain;
  for (const BlockSpec& block : question.model.blocks) {
    chain.blocks.push_back(chain_block(question, block));
  }
  chain.activation =
      activation_bytes(question.model, shape, {weight_element_bytes(question.precision)});
  chain.tokens = tokens_bytes(shape);
  return chain;
}

// An update goes element by element, so that DRAM needs room for a piece at a time of what drives
// hold. The pieces of all blocks are about as large, and not so many that plans get long.
void cut_states(const PlanQuestion& question, Chain& chain) {
  constexpr std::int64_t kPiecesPerBlock = 4;
  constexpr Bytes kLeastPiece = 4_MiB;  // of smaller ones DRAM has room for a block
  const Bytes page{kStatePieceElements * state_element_bytes(question.precision)};
  Bytes all;
  for (const ChainBlock& block : chain.blocks) all += block.states;
  const auto blocks = static_cast<std::int64_t>(chain.size());
  const Bytes most = std::max(kLeastPiece, Bytes{all.count / (kPiecesPerBlock * blocks)});
  for (ChainBlock& block : chain.blocks) {
    const std::int64_t pieces = (block.states.count + most.count - 1) / most.count;
    block.state_piece = block.states;
    if (pieces > 1) {
      block.state_piece = round_up(Bytes{(block.states.count + pieces - 1) / pieces}, page);
    }
  }
}

// Whatever the profile says: the first block and the fused head keep nothing
// (plan/task_signature.h), nor does evaluation, nor a job that asks to recompute.
void forbid_saving(const PlanQuestion& question, Chain& chain) {
  const bool nobody =
      question.mode != PlanMode::train || question.options.activations == ActivationRule::recompute;
  for (const BlockId b : chain.blocks.ids()) {
    if (nobody || b == BlockId(0) || chain.blocks[b].fused) chain.blocks[b].saved = {};
  }
}

}  // namespace

Chain make_chain(const PlanQuestion& question) {
  check_profile(question);
  Chain chain = question.model.blocks.empty() ? paper_chain(question) : model_chain(question);
  forbid_saving(question, chain);
  cut_states(question, chain);
  return chain;
}

double update_rate(const PlanQuestion& question) {
  if (question.profile.update_rate > 0) return question.profile.update_rate;
  if (question.machine.host.update_rate > 0) return question.machine.host.update_rate;
  return estimated_update_rate(question.machine.host, question.gradients);
}

}  // namespace ferry
