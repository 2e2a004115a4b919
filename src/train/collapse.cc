#include "train/collapse.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace ferry {
namespace {

// Of the loss of guessing: a model that learned anything is below the first; a new one may be a
// little above 1, none that learns is above the second.
constexpr double kNoBetterThanGuessing = 0.9, kFarWorseThanGuessing = 3;

constexpr double kNoGradient = 1e-7;  // collapsed in fp32 or bf16, the norm is exactly 0

}  // namespace

CollapseWatch::CollapseWatch(std::int64_t vocabulary)
    : guessing_(std::log(static_cast<double>(vocabulary))) {}

void CollapseWatch::step(int done, double loss, double grad_norm) {
  const bool stuck = grad_norm < kNoGradient && loss > kNoBetterThanGuessing * guessing_;
  const bool lost = loss > kFarWorseThanGuessing * guessing_;
  const bool looks_collapsed = stuck || (lost && last_good_);
  has_just_collapsed_ = looks_collapsed && in_a_row_ + 1 == kSteps;
  if (looks_collapsed) {
    ++in_a_row_;
  } else if (!lost) {
    in_a_row_ = 0;
    last_good_ = done - 1;
  }
}

void CollapseWatch::tell_again() {
  in_a_row_ = std::min(in_a_row_, kSteps - 1);
  has_just_collapsed_ = false;
}

std::string CollapseWatch::words(double loss, double grad_norm) const {
  char text[256];
  std::snprintf(
      text, sizeof text,
      "for %d steps the loss has been about %.4f, where guessing has %.4f, and the gradient "
      "norm %.2g: the model has collapsed",
      kSteps, loss, guessing_, grad_norm);
  return std::string(text) +
         "\n  the last checkpoint from before stays, beyond train.keep; stop, and go on from it "
         "with "
         "a smaller optim.lr";
}

}  // namespace ferry
