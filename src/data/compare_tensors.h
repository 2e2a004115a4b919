// How far two sets of tensors are apart, tensor by tensor, without holding either in memory.
#pragma once

#include <string>
#include <vector>

#include "data/safetensors.h"

namespace ferry {

struct TensorDifference {
  std::string name;
  bool same_bits = true;
  double largest = 0;  // |a - b|; infinite where one of them is not finite and the other differs
};

/// Compares every tensor of `a` with the one of that name in `b`, as they are stored and as floats.
/// Needs 1 MiB of memory. Requires: both have the same names, types and shapes.
std::vector<TensorDifference> compare_tensors(const Checkpoint& a, const Checkpoint& b);

}  // namespace ferry
