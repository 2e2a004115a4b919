// A CUDA device's own kernels for updates and sums of gradients (step_kernels.cu), launched on the
// current stream. Each takes the place of many tensor operations; these stay as the reference and
// for devices without.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>

#include "base/progress.h"
#include "device/device.h"
#include "device/kernel_library.h"
#include "model/fused.h"
#include "optim/adamw.h"
#include "train/device_update.h"

namespace ferry {

/// Calls come from one thread at a time. Must outlive what it has enqueued.
class StepKernels final : public FusedOperations {
 public:
  /// The stream to launch on, as the driver knows it.
  using CurrentStream = std::function<void*()>;

  /// Those of a cuda device, compiled where `file` does not keep them; nothing for a simulated one.
  /// Nothing either where the compiler or the driver is missing or refuses: the listener hears why.
  static std::unique_ptr<StepKernels> open(const Device& device, const KernelFile& file,
                                           PhaseListener& listener);

  StepKernels(std::unique_ptr<KernelLibrary> library, CurrentStream stream);

  /// The update of device_adamw_step() (train/device_update.h), same bits, in one kernel and
  /// without memory of its own.
  void adamw(const AdamWFactors& factors, const DeviceState& state, const at::Tensor& scale) const;

  /// sum += gradient, or sum = gradient unless `adds`; a gradient that is not defined leaves the
  /// sum. Requires: both contiguous, the sum in fp32, the gradient in fp32 or bf16. Returns, if
  /// `squares`, partial sums of the squares of the new sum, in fp64; else nothing defined.
  at::Tensor add_gradient(const at::Tensor& sum, const at::Tensor& gradient, bool adds,
                          bool squares) const;

  /// total += the sum of what add_gradient() returned, in an order that depends on its size alone.
  /// `total` is 0-dim, fp64.
  void add_squares(at::Tensor parts, const at::Tensor& total) const;

  // What blocks compute by them.
  at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) const override;
  std::pair<at::Tensor, at::Tensor> swiglu_backward(const at::Tensor& dy, const at::Tensor& gate,
                                                    const at::Tensor& up) const override;
  at::Tensor rotate(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine,
                    int sign) const override;
  at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& labels,
                           std::optional<double> scale) const override;

 private:
  template <typename... Parameters>
  void launch(const char* kernel, std::int64_t threads, Parameters... parameters) const;

  std::unique_ptr<KernelLibrary> library_;
  CurrentStream stream_;
};

}  // namespace ferry
