#include "planner/costs/question.h"

#include "base/error.h"

namespace ferry {

std::optional<double> tokens_of(const PlanQuestion& question) {
  if (question.model.blocks.empty() && question.harmony) return std::nullopt;
  return 1.0 * question.micro_batches * question.micro_batch_size * question.sequence;
}

void check_question(const PlanQuestion& question) {
  if (question.micro_batches < 1 || question.micro_batch_size < 1 || question.sequence < 1) {
    throw UserError("a step needs at least one micro-batch, of one sequence, of one token");
  }
  if (question.model.blocks.empty() && question.profile.chain.empty()) {
    throw UserError("a question needs a model, or a profile with a chain of blocks");
  }
  if (question.model.blocks.size() == 1) throw UserError("a model needs an embedding and a head");
  if (question.machine.devices.empty()) throw UserError("a machine needs at least one device");
  if (!question.model.blocks.empty()) check_sequence(question.model, question.sequence);
}

}  // namespace ferry
