// What changes from step to step: the batches, the learning rate, the normalisation of the loss.
#pragma once

#include <vector>

#include "data/batches.h"
#include "optim/adamw.h"

namespace ferry {

/// One step's inputs. Immutable once made, so any thread may read them.
struct StepNumbers {
  int step = 0;
  std::vector<Batch> batches;  // one per micro-batch
  std::int64_t learned = 0;    // tokens the step learns, over all micro-batches
  double loss_scale = 0;       // 1 / learned; 0 when nothing is learned
  AdamW adamw;                 // lr and step count of this step
};

}  // namespace ferry
