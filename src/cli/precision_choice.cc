#include "cli/precision_choice.h"

#include "cli/print.h"

namespace ferry {

PrecisionChoice faster_precision(double bf16, double fp32) {
  if (bf16 <= 0 || fp32 <= 0) {
    return {Precision::fp32, "the budgets leave no room to measure products"};
  }
  if (bf16 >= fp32) {
    return {Precision::bf16,
            print("products in bf16 are %.1f times as fast as in fp32 here", bf16 / fp32)};
  }
  return {Precision::fp32,
          print("products in bf16 take %.1f times as long as in fp32 here", fp32 / bf16)};
}

std::optional<PrecisionChoice> precision_of_cpu(const std::string& capability) {
  if (capability == "AVX512") return std::nullopt;
  return PrecisionChoice{
      Precision::fp32, "products in bf16 are emulated by this CPU's kernels (" + capability + ")"};
}

PrecisionChoice precision_of_gpu(bool multiplies_bf16) {
  if (multiplies_bf16) return {Precision::bf16, "the GPU's matrix units take bf16"};
  return {Precision::fp32,
          "the GPU's matrix units do not take bf16 (compute capability below 8.0)"};
}

PrecisionChoice precision_elsewhere() {
  return {Precision::bf16, "the machine is not here, and GPUs of today multiply it fastest"};
}

}  // namespace ferry
