// Whether two runs of the same steps gave the same numbers: what `ferry verify` says.
#pragma once

#include <string>
#include <vector>

#include "data/compare_tensors.h"
#include "spec/precision.h"
#include "train/trainer.h"

namespace ferry {

struct Verdict {
  std::string text;   // a line per step, and what differs most
  bool same = false;  // within the tolerance
};

/// What two runs may differ by. Simulated devices compute on the CPU, where every strategy gives
/// the same bits; a GPU's kernels may add in any order.
enum class Tolerance { no_bit, rounding };

/// Holds the steps and what was saved after the last of them against each other. With
/// Tolerance::rounding losses may differ by 1e-3 of their size (2e-2 in bf16) and norms by ten
/// times that; tensors are told, not judged: Adam makes a whole step of a gradient near 0 of either
/// sign. Requires: as many steps on both sides, at least one.
Verdict judge(const std::vector<StepReport>& planned, const std::vector<StepReport>& in_memory,
              const std::vector<TensorDifference>& tensors, Tolerance tolerance,
              Precision precision);

}  // namespace ferry
