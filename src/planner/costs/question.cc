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

void set_device_budgets(PlanQuestion& question, Bytes each) {
  question.device_budgets.resize(question.machine.devices.size());
  for (Budget& budget : question.device_budgets) budget.bytes = each;
}

Budget device_budget(const PlanQuestion& question, int device) {
  const auto d = static_cast<std::size_t>(device);
  const Bytes memory = question.machine.devices[d].memory;
  if (d < question.device_budgets.size() && question.device_budgets[d].bytes <= memory) {
    return question.device_budgets[d];
  }
  return {memory, question.machine.source.text};
}

bool equal_budgets(const PlanQuestion& question) {
  for (int d = 1; d < static_cast<int>(question.machine.devices.size()); ++d) {
    if (device_budget(question, d).bytes != device_budget(question, 0).bytes) return false;
  }
  return true;
}

int least_device(const PlanQuestion& question) {
  const int count = static_cast<int>(question.machine.devices.size());
  int least = 0;
  for (int d = 1; d < count; ++d) {
    if (device_budget(question, d).bytes < device_budget(question, least).bytes) least = d;
  }
  return least;
}

PlanQuestion with_norm_first(PlanQuestion question) {
  question.norm_first = true;
  question.options.activations = ActivationRule::recompute;
  return question;
}

}  // namespace ferry
