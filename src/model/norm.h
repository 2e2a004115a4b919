// Normalisations over the last dimension, differentiable. Sums are taken in fp32 whatever the type.
#pragma once

#include <ATen/core/Tensor.h>

namespace ferry {

/// weight * x / sqrt(mean(x^2) + epsilon). Its backward is the closed form in a few passes: the
/// CPU has no fused one, and the decomposed one takes four times as long (tests/parity/speed.py).
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon);

/// weight * (x - mean) / sqrt(variance + epsilon) + bias. In bf16 it computes in fp32, since
/// torch's bf16 weight gradient on the CPU is off by several percent.
at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      double epsilon);

}  // namespace ferry
