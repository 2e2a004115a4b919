#include "model/fused.h"

#include <ATen/ATen.h>

namespace ferry {
namespace {

thread_local const FusedOperations* current = nullptr;

}  // namespace

bool fits_fused(const at::Tensor& tensor) {
  constexpr std::uintptr_t kAlignment = 2 * kFusedGroup;  // bytes
  return tensor.scalar_type() == at::kBFloat16 && tensor.is_contiguous() &&
         tensor.numel() % kFusedGroup == 0 &&
         reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()) % kAlignment == 0;
}

const FusedOperations* fused_operations() { return current; }

UseFused::UseFused(const FusedOperations* operations) : before_(current) { current = operations; }

UseFused::~UseFused() { current = before_; }

}  // namespace ferry
