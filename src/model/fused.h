// Chains of elementwise operations that a device computes in one kernel where it has one; torch's
// operations, each of which goes over all of memory, do elsewhere.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <utility>

namespace ferry {

/// Results are those of torch's operations in bf16, each rounded where those round, but for the
/// last bits of an exponential. Requires of all arguments: fits_fused().
class FusedOperations {
 public:
  virtual ~FusedOperations() = default;

  /// silu(gate) * up.
  virtual at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) const = 0;

  /// The gradients of gate and up.
  virtual std::pair<at::Tensor, at::Tensor> swiglu_backward(const at::Tensor& dy,
                                                            const at::Tensor& gate,
                                                            const at::Tensor& up) const = 0;

  /// As rotate() (rotary.h) turns x [rows, length, heads, head_dim]; `sign` -1 turns back.
  /// Requires: halves of a head fill whole groups of kFusedGroup, the table has `length` rows.
  virtual at::Tensor rotate(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine,
                            int sign) const = 0;

  /// The cross-entropies [rows] fp32 of logits [rows, vocab] with `labels` [rows] int64; 0 where a
  /// label is negative. The logits become the gradient of `scale`, if any, times their sum.
  /// Requires: a row fills whole groups of kFusedGroup.
  virtual at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& labels,
                                   std::optional<double> scale) const = 0;
};

inline constexpr std::int64_t kFusedGroup = 8;  // bf16 numbers that are read at once

/// bf16, contiguous, in whole groups that begin where groups may.
bool fits_fused(const at::Tensor& tensor);

/// Those that blocks use on this thread; null: none.
const FusedOperations* fused_operations();

/// Makes this thread's blocks use `operations`, null for none, while it lives.
class UseFused {
 public:
  explicit UseFused(const FusedOperations* operations);
  ~UseFused();
  UseFused(const UseFused&) = delete;
  UseFused& operator=(const UseFused&) = delete;

 private:
  const FusedOperations* const before_;
};

}  // namespace ferry
