#include "model/positions.h"

#include <ATen/ATen.h>

namespace ferry {

at::Tensor document_positions(const Positions& positions, at::Device device) {
  std::vector<at::Tensor> parts;
  for (const std::int64_t length : positions.documents) {
    parts.push_back(at::arange(length, at::TensorOptions(at::kLong).device(device)));
  }
  return at::cat(parts);
}

at::Tensor document_starts(const Positions& positions, at::Device device) {
  std::vector<std::int32_t> starts{0};
  for (const std::int64_t length : positions.documents) {
    starts.push_back(starts.back() + static_cast<std::int32_t>(length));
  }
  return at::tensor(starts, at::kInt).to(device, /*non_blocking=*/true);
}

}  // namespace ferry
