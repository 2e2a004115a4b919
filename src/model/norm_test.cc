#include "model/norm.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "model/testing.h"

namespace ferry {
namespace {

struct Gradients {
  at::Tensor y, dx, dweight, dbias;
};

/// Runs `norm` on copies of the tensors and takes all gradients.
template <typename Norm>
Gradients differentiate(const std::vector<at::Tensor>& inputs, const at::Tensor& dy, Norm norm) {
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& input : inputs) leaves.push_back(input.detach().requires_grad_());
  const at::Tensor y = norm(leaves);
  std::vector<at::Tensor> found = torch::autograd::grad({y}, leaves, {dy});
  found.resize(3);
  return {y.detach(), found[0], found[1], found[2]};
}

TEST(RmsNorm, EqualsItsFormulaAndGradientInDouble) {
  at::manual_seed(3);
  const at::Tensor x = at::randn({2, 5, 3, 24}) * 4, weight = at::randn({24});
  const at::Tensor dy = at::randn({2, 5, 3, 24});
  const Gradients found =
      differentiate({x, weight}, dy, [](const auto& in) { return rms_norm(in[0], in[1], 1e-3); });
  const Gradients expected = differentiate(
      {x.to(at::kDouble), weight.to(at::kDouble)}, dy.to(at::kDouble),
      [](const auto& in) { return in[0] / (in[0].square().mean(-1, true) + 1e-3).sqrt() * in[1]; });

  EXPECT_LT(relative_error(found.y, expected.y), 1e-6);
  EXPECT_LT(relative_error(found.dx, expected.dx), 1e-6);
  EXPECT_LT(relative_error(found.dweight, expected.dweight), 1e-6);
}

// Heads are normalised in place in a wider row, so neither input nor gradient need be contiguous.
TEST(RmsNorm, TakesStridedInputAndGradient) {
  const at::Tensor x = at::randn({6, 40}).narrow(1, 4, 24), weight = at::randn({24});
  const at::Tensor dy = at::randn({24, 6}).t();
  const auto run = [&](const at::Tensor& input, const at::Tensor& gradient) {
    return differentiate({input, weight}, gradient,
                         [](const auto& in) { return rms_norm(in[0], in[1], 1e-5); });
  };
  const Gradients strided = run(x, dy), plain = run(x.contiguous(), dy.contiguous());
  EXPECT_LT(relative_error(strided.y, plain.y), 1e-6);
  EXPECT_LT(relative_error(strided.dx, plain.dx), 1e-6);
  EXPECT_LT(relative_error(strided.dweight, plain.dweight), 1e-6);
}

// torch's own bf16 kernel is off by 4e-2 here.
TEST(LayerNorm, Bf16WeightGradientIsTakenInFp32) {
  at::manual_seed(5);
  const at::Tensor x = at::randn({2048, 64}).to(at::kBFloat16);
  const at::Tensor weight = at::randn({64}).to(at::kBFloat16), bias = at::randn_like(weight);
  const at::Tensor dy = at::randn({2048, 64}).to(at::kBFloat16);
  const auto norm = [](const auto& in) { return layer_norm(in[0], in[1], in[2], 1e-5); };
  const Gradients found = differentiate({x, weight, bias}, dy, norm);
  const Gradients expected = differentiate(
      {x.to(at::kDouble), weight.to(at::kDouble), bias.to(at::kDouble)}, dy.to(at::kDouble),
      [](const auto& in) {
        const at::Tensor centred = in[0] - in[0].mean(-1, true);
        return centred / (centred.square().mean(-1, true) + 1e-5).sqrt() * in[1] + in[2];
      });

  EXPECT_EQ(found.dweight.scalar_type(), at::kBFloat16);
  EXPECT_LT(relative_error(found.y, expected.y), 4e-3);
  EXPECT_LT(relative_error(found.dweight, expected.dweight), 4e-3);
  EXPECT_LT(relative_error(found.dbias, expected.dbias), 4e-3);
}

}  // namespace
}  // namespace ferry
