// The loss on held-out data, by an evaluation plan over the memory that training uses.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "base/progress.h"
#include "data/batches.h"
#include "data/tokens.h"
#include "train/places.h"
#include "train/step_runner.h"
#include "train/trainer.h"

namespace ferry {

class Evaluation {
 public:
  /// Uses setup.eval_tokens, or the held-out samples of setup.train_tokens. Requires:
  /// setup.evaluation is set, its home instances lie where the training plan's do. All references
  /// must outlive this object.
  Evaluation(const TrainSetup& setup, Places& places);

  /// The mean loss over all learned tokens, each sample once; nothing when `wants_to_stop`, which
  /// is asked before every step, said so. Only while nothing else is in flight.
  std::optional<double> loss(PhaseListener& listener, const std::function<bool()>& wants_to_stop);

 private:
  StepNumbers make_numbers(int step) const;

  const Plan& plan_;
  Batches batches_;
  StepRunner runner_;
};

}  // namespace ferry
