// Parameters per second of our AdamW against torch's fused one on the CPU, both on fp32 states with
// fp32 gradients and the same threads; and ours on bf16 weights, which torch's has no form of.
//
// Usage: adamw_torch_bench [parameters in units of 2^20 = 100] [threads = 2] [repeats = 15]
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>

#include <cstdio>
#include <cstdlib>

#include "adamw_arrays.h"
#include "measure.h"
#include "optim/adamw.h"

namespace ferry {
namespace {

at::Tensor tensor_of(std::span<float> values) {
  return at::from_blob(values.data(), {static_cast<std::int64_t>(values.size())}, at::kFloat);
}

void run(std::size_t count, int threads, int repeats) {
  WorkerTeam team(threads);
  at::set_num_threads(threads);
  AdamWArrays arrays(count, team);
  const AdamW adamw{.lr = 1e-5, .weight_decay = 0.01, .step = 100};
  const auto step = [&](const Update& update) {
    if (adamw_step(adamw, {&update, 1}, 1.0F, team)) std::abort();
  };
  const std::vector<at::Tensor> weight = {tensor_of(arrays.weight)};
  const std::vector<at::Tensor> gradient = {tensor_of(arrays.gradient)};
  const std::vector<at::Tensor> m = {tensor_of(arrays.m)}, v = {tensor_of(arrays.v)};
  const std::vector<at::Tensor> steps = {at::full({}, 100.0, at::kFloat)};
  const auto torch_step = [&] {
    at::_fused_adamw_(weight, gradient, m, v, {}, steps, adamw.lr, adamw.beta1, adamw.beta2,
                      adamw.weight_decay, adamw.eps, /*amsgrad=*/false, /*maximize=*/false);
  };
  const std::span<const float> fp32 = arrays.gradient;
  const std::span<const std::uint16_t> bf16 = arrays.gradient_bf16;
  const std::vector<Subject> subjects = {{"torch fused adamw fp32", torch_step},
                                         {"adamw fp32, fp32 gradient",
                                          [&] {
                                            step({arrays.full(), fp32});
                                          }},
                                         {"adamw hi/lo, fp32 gradient",
                                          [&] {
                                            step({arrays.split(), fp32});
                                          }},
                                         {"adamw hi/lo, bf16 gradient", [&] {
                                            step({arrays.split(), bf16});
                                          }}};
  const auto seconds = median_seconds(subjects, repeats);
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    print_figure(subjects[i].name, static_cast<double>(count) / seconds[i].wall * 1e-9,
                 "G parameters/s");
  }
  for (std::size_t i = 1; i < subjects.size(); ++i) {
    print_figure("ratio to torch, " + subjects[i].name, seconds[0].wall / seconds[i].wall,
                 "(bar 1.0)");
    print_figure("  by processor time", seconds[0].cpu / seconds[i].cpu, "");
  }
}

}  // namespace
}  // namespace ferry

int main(int argc, char** argv) {
  const auto argument = [&](int i, int fallback) {
    return argc > i ? std::atoi(argv[i]) : fallback;
  };
  const int millions = argument(1, 100), threads = argument(2, 2), repeats = argument(3, 15);
  if (millions < 1 || threads < 1 || repeats < 1) {
    std::fprintf(stderr, "usage: adamw_torch_bench [parameters/2^20] [threads] [repeats]\n");
    return 2;
  }
  ferry::run(static_cast<std::size_t>(millions) << 20, threads, repeats);
  return 0;
}
