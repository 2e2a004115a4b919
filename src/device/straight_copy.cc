#include "device/straight_copy.h"

#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>

namespace ferry {

StraightCopies::StraightCopies(Device& from, Device& to, const std::string& purpose) {
  if (from.torch_device() != to.torch_device()) arrival_ = to.stream(purpose + ".arrival");
}

// Autograd counts changes of a slab for all its views together, and another thread may compute with
// some of them meanwhile: variable_data() is the same bytes with a count of their own.
void StraightCopies::copy(const at::Tensor& from, const at::Tensor& to) const {
  const c10::OptionalStreamGuard meets(arrival_);
  to.variable_data().copy_(from, /*non_blocking=*/true);
}

bool arrive_whole(Device& from, const at::Tensor& sent, Device& to, const at::Tensor& received) {
  const StraightCopies way(from, to, "check");
  // No byte has its neighbours' pattern, and what one left behind is wrong for the other.
  constexpr std::int64_t kPeriod = 251;
  const std::int64_t size = sent.numel();
  const at::Tensor pattern =
      at::arange(kPeriod, at::kByte).repeat(size / kPeriod + 1).narrow(0, 0, size);
  for (const at::Tensor& bytes : {pattern, pattern.bitwise_not()}) {
    sent.copy_(bytes);
    {
      const c10::StreamGuard current(from.stream("check"));
      way.copy(sent, received);
    }
    from.synchronize();
    if (!at::equal(received.cpu(), bytes)) return false;
  }
  return true;
}

}  // namespace ferry
