#include "cli/verdict.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "cli/print.h"

namespace ferry {
namespace {

constexpr std::size_t kShown = 10;  // tensors that are named

/// |a - b| over |b|; infinite where one of them is not finite and they differ.
double relative(double a, double b) {
  if (a == b) return 0;
  const double difference = std::abs(a - b) / std::max(std::abs(b), 1e-30);
  return std::isfinite(difference) ? difference : INFINITY;
}

/// The tensors that differ, the one that does most first.
std::vector<TensorDifference> differing(const std::vector<TensorDifference>& tensors) {
  std::vector<TensorDifference> found;
  std::ranges::copy_if(tensors, std::back_inserter(found),
                       [](const TensorDifference& one) { return !one.same_bits; });
  std::ranges::stable_sort(found, std::greater<>(), &TensorDifference::largest);
  return found;
}

std::string tensors_text(const std::vector<TensorDifference>& all,
                         const std::vector<TensorDifference>& different) {
  if (different.empty()) {
    return print("weights and optimizer state: %zu tensors, equal bit for bit\n", all.size());
  }
  std::string text =
      print("weights and optimizer state: %zu of %zu tensors differ, by at most %.3g\n",
            different.size(), all.size(), different.front().largest);
  for (std::size_t i = 0; i < std::min(kShown, different.size()); ++i) {
    text += print("  %-60s %.3g\n", different[i].name.c_str(), different[i].largest);
  }
  return text;
}

}  // namespace

Verdict judge(const std::vector<StepReport>& planned, const std::vector<StepReport>& in_memory,
              const std::vector<TensorDifference>& tensors, Tolerance tolerance,
              Precision precision) {
  FERRY_CHECK(!planned.empty() && planned.size() == in_memory.size(), "the same steps");
  Verdict verdict;
  verdict.text = print("%6s %16s %16s %16s %16s\n", "step", "loss planned", "loss in memory",
                       "norm planned", "norm in memory");
  double loss = 0, norm = 0;
  for (std::size_t i = 0; i < planned.size(); ++i) {
    verdict.text += print("%6d %16.9g %16.9g %16.9g %16.9g\n", planned[i].step, planned[i].loss,
                          in_memory[i].loss, planned[i].grad_norm, in_memory[i].grad_norm);
    loss = std::max(loss, relative(planned[i].loss, in_memory[i].loss));
    norm = std::max(norm, relative(planned[i].grad_norm, in_memory[i].grad_norm));
  }
  const std::vector<TensorDifference> different = differing(tensors);
  const bool same_bits = loss == 0 && norm == 0 && different.empty();
  const double allowed = precision == Precision::bf16 ? 2e-2 : 1e-3;
  verdict.same =
      tolerance == Tolerance::no_bit ? same_bits : loss <= allowed && norm <= 10 * allowed;
  verdict.text += print("largest difference: losses %.3g, norms %.3g of their size\n", loss, norm);
  verdict.text += tensors_text(tensors, different);
  if (same_bits) {
    verdict.text += "the plan computes what the job computes in memory, bit for bit\n";
  } else if (tolerance == Tolerance::no_bit) {
    verdict.text += "the plan computes something else: no bit may differ on the CPU\n";
  } else {
    verdict.text += print("%s rounding: losses may differ by %.3g of their size, norms by %.3g\n",
                          verdict.same ? "the plan computes what the job computes in memory, within"
                                       : "the plan computes something else, beyond",
                          allowed, 10 * allowed);
  }
  return verdict;
}

}  // namespace ferry
