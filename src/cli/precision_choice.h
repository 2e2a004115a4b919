// What `train.precision: auto` means on a device.
#pragma once

#include <optional>
#include <string>

#include "spec/precision.h"

namespace ferry {

struct PrecisionChoice {
  Precision precision = Precision::bf16;
  std::string reason;
};

/// The precision in which products are faster, bf16 where both are equal; rates in FLOP/s, 0 where
/// there was no room to measure.
PrecisionChoice faster_precision(double bf16, double fp32);

/// For a CPU whose kernels are of `capability` (cpu_capability()): fp32 where they only emulate
/// bf16, which takes ten times as long and more; else nothing, and measuring tells.
std::optional<PrecisionChoice> precision_of_cpu(const std::string& capability);

/// bf16 where the GPU's matrix units take it.
PrecisionChoice precision_of_gpu(bool multiplies_bf16);

/// bf16, where no device can be asked.
PrecisionChoice precision_elsewhere();

}  // namespace ferry
