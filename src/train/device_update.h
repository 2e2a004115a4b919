// AdamW on a device: for states that live there. By elementary tensor operations, or, where a
// device has kernels of our own, by one of these.
//
// Every operation is one correctly rounded fp32 operation in the order of optim/adamw.h, so on the
// CPU the result equals the fused host kernel bit for bit.
#pragma once

#include <ATen/core/Tensor.h>

#include "optim/adamw.h"

namespace ferry {

class StepKernels;

/// One tensor's state on a device, flat, all of one length. `weight` is fp32 (then `lo` is
/// undefined) or bf16, the hi half of the master; `lo` is int16, the low half. m and v are fp32,
/// `gradient` is fp32 or bf16.
struct DeviceState {
  at::Tensor weight, lo, m, v;
  at::Tensor gradient;
  bool rounds = false;  // the gradient, to bf16, before anything else; nothing to one in bf16
};

/// Enqueues one update on the current stream. Tensor operations go in pieces, so that they need at
/// most device_update_workspace() (spec/layout.h) beside the state; `kernels`, unless null, need
/// nothing and leave the same bits. `scale` is the 0-dim fp32 gradient scale on the same device, or
/// undefined for 1. AdamWFactors::gradient_scale is not used.
void device_adamw_step(const AdamWFactors& factors, const DeviceState& state,
                       const at::Tensor& scale, const StepKernels* kernels = nullptr);

}  // namespace ferry
