#include "train/gradient_sums.h"

#include <ATen/ATen.h>

#include <utility>

namespace ferry {

GradientSums::GradientSums(std::vector<at::Tensor> sums, const StepKernels* kernels)
    : sums_(std::move(sums)), squares_(sums_.size()), kernels_(kernels) {}

void GradientSums::zero() {
  for (const at::Tensor& sum : sums_) sum.zero_();
}

void GradientSums::add(std::vector<at::Tensor>& gradients, bool adds, bool last) {
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    add_one(i, gradients[i], adds, last);
    gradients[i] = at::Tensor();  // its memory is free for what follows
  }
}

void GradientSums::add_one(std::size_t i, const at::Tensor& gradient, bool adds, bool last) {
  if (kernels_ != nullptr && gradient.is_contiguous()) {
    squares_[i] = kernels_->add_gradient(sums_[i], gradient, adds, last);
  } else if (adds) {
    sums_[i].add_(gradient);
  } else {
    sums_[i].copy_(gradient);
  }
}

void GradientSums::add_to_first(const at::Tensor& gradient) {
  sums_.front().add_(gradient);
  squares_.front() = at::Tensor();
}

void GradientSums::squared_norm(const at::Tensor& total) {
  total.zero_();
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    if (kernels_ == nullptr) {
      const at::Tensor norm = at::linalg_vector_norm(sums_[i]).to(at::kDouble);
      total.add_(norm * norm);
      continue;
    }
    if (!squares_[i].defined()) {
      squares_[i] = kernels_->add_gradient(sums_[i], {}, /*adds=*/true, /*squares=*/true);
    }
    kernels_->add_squares(std::exchange(squares_[i], at::Tensor()), total);
  }
}

}  // namespace ferry
