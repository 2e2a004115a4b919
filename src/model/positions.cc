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

}  // namespace ferry
