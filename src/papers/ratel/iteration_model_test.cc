#include "papers/ratel/iteration_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "papers/ratel/ratel_calibration.h"
#include "papers/ratel/ratel_servers.h"

namespace ferry {
namespace {

// Values over several orders of magnitude, so that each term of the model binds now and then.
double any(std::mt19937_64& random, double low, double high) {
  std::uniform_real_distribution<double> exponent(std::log(low), std::log(high));
  return std::exp(exponent(random));
}

// An activation that is either swapped or recomputed.
struct Tensor {
  std::string name;  // "fc2"
  double bytes = 0;
  double recompute = 0;          // seconds of backward saved when it is swapped
  bool must_be_swapped = false;  // a block's input: from it the others are recomputed
};

struct Question {
  SwapProblem problem;
  std::vector<Tensor> tensors;  // in the order in which they are swapped
};

// Those that must be swapped first, then by falling seconds per byte, Eq. (6).
std::vector<Tensor> in_swap_order(std::vector<Tensor> tensors) {
  std::stable_sort(tensors.begin(), tensors.end(), [](const Tensor& left, const Tensor& right) {
    if (left.must_be_swapped != right.must_be_swapped) return left.must_be_swapped;
    if (left.must_be_swapped) return false;
    return left.recompute / left.bytes > right.recompute / right.bytes;
  });
  return tensors;
}

// Eq. (7): seconds of recomputation that are left when the first `swapped` bytes leave the GPU, a
// part of a tensor counting in proportion.
double recompute_time(const std::vector<Tensor>& tensors, double swapped) {
  double left = 0;
  for (const Tensor& tensor : tensors) {
    left += (1 - std::clamp(swapped / tensor.bytes, 0.0, 1.0)) * tensor.recompute;
    swapped -= tensor.bytes;
  }
  return left;
}

// The tensors of `layers` GPT blocks, in units of 2 hidden tokens bytes: the block's input (1),
// fc2 (1), projection (1), qkv (3), fc1 (4), and what elementwise operators produce (7), which
// takes `elementwise` seconds per layer to compute again.
std::vector<Tensor> gpt_tensors(int layers, double hidden, double tokens, double flops_per_second,
                                double elementwise) {
  const double unit = 2 * hidden * tokens;
  // A product with `squares` h^2 weights is 2 squares h^2 FLOPs per token.
  const auto product = [&](double squares) {
    return 2 * squares * hidden * hidden * tokens / flops_per_second;
  };
  std::vector<Tensor> tensors;
  for (int layer = 0; layer < layers; ++layer) {
    tensors.push_back({"input", unit, 0, true});
    tensors.push_back({"fc2", unit, product(4), false});
    tensors.push_back({"projection", unit, product(1), false});
    tensors.push_back({"qkv", 3 * unit, product(3), false});
    tensors.push_back({"fc1", 4 * unit, product(4), false});
    tensors.push_back({"elementwise", 7 * unit, elementwise, false});
  }
  return in_swap_order(std::move(tensors));
}

struct Prefix {
  std::size_t count = 0;  // of the tensors
  double bytes = 0;
  double time = std::numeric_limits<double>::infinity();
};

// What Algorithm 1 looks for, by trying all: the fastest prefix of the order that holds every
// block input; the shortest of several.
Prefix best_prefix(const Question& question) {
  Prefix best;
  double bytes = 0;
  for (std::size_t count = 0; count <= question.tensors.size(); ++count) {
    if (count > 0) bytes += question.tensors[count - 1].bytes;
    if (count < question.tensors.size() && question.tensors[count].must_be_swapped) continue;
    const double recompute = recompute_time(question.tensors, bytes);
    const double time = iteration_time(question.problem, bytes, recompute).total();
    if (time < best.time) best = {count, bytes, time};
  }
  return best;
}

Question random_question(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Question question;
  SwapProblem& problem = question.problem;
  problem.costs =
      ratel_costs(any(random, 1e9, 1e11), any(random, 1e3, 1e6), any(random, 1e13, 1e15));
  problem.costs.drive_wait = random() % 2 == 0 ? 0 : any(random, 0.1, 100);
  problem.rates = {any(random, 1e9, 1e11), any(random, 1e9, 1e11), any(random, 1e9, 1e11)};
  problem.host_available = any(random, 1e6, 1e12);
  const std::size_t count = 1 + random() % 24;
  for (std::size_t i = 0; i < count; ++i) {
    Tensor tensor;
    tensor.bytes = any(random, 1e8, 1e11);
    tensor.must_be_swapped = random() % 4 == 0;
    tensor.recompute = random() % 8 == 0 ? 0 : any(random, 1e-4, 1) * tensor.bytes / 1e10;
    question.tensors.push_back(tensor);
  }
  question.tensors = in_swap_order(std::move(question.tensors));
  return question;
}

// 13B's layers at `tokens` on Ratel's server; P is the layers' alone, so that FLOPs agree.
RatelCase thirteen_billion(double tokens) {
  RatelCase c;
  c.parameters = 12.0 * 5120 * 5120 * 40;
  c.layers = 40;
  c.hidden = 5120;
  c.tokens = tokens;
  return c;
}

std::vector<Tensor> tensors_of(const RatelConstants& server, const RatelCase& c) {
  return gpt_tensors(c.layers, c.hidden, c.tokens, server.flops,
                     elementwise_seconds(server, c) / c.layers);
}

TEST(IterationModel, StepTimeIsConvexInTheSwappedBytes) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const Question question = random_question(seed);
    double pinned = 0;
    double all = 0;
    for (const Tensor& tensor : question.tensors) {
      all += tensor.bytes;
      if (tensor.must_be_swapped) pinned += tensor.bytes;
    }
    const auto time = [&](double bytes) {
      const double recompute = recompute_time(question.tensors, bytes);
      return iteration_time(question.problem, bytes, recompute).total();
    };
    constexpr int kParts = 40;
    const double step = (all - pinned) / kParts;
    for (int i = 1; i < kParts; ++i) {
      const double at = pinned + i * step;
      ASSERT_LE(2 * time(at), time(at - step) + time(at + step) + 1e-9 * time(at))
          << "seed " << seed << " part " << i;
    }
  }
}

// Three shapes of the curve: Ratel, section on traffic-aware swapping.
TEST(IterationModel, DrivesThatBindLeaveOnlyBlockInputsSwapped) {
  Question question;
  question.problem.costs = ratel_costs(13e9, 8192, 160e12);
  question.problem.rates = {21e9, 6.5e9, 3.4e9};
  question.tensors = gpt_tensors(40, 5120, 8192, 160e12, 0);
  const Prefix best = best_prefix(question);
  EXPECT_EQ(best.count, 40U);
  EXPECT_DOUBLE_EQ(best.bytes, 2.0 * 8192 * 5120 * 40);
}

TEST(IterationModel, AGpuThatBindsHasEverythingSwapped) {
  Question question;
  question.problem.costs = ratel_costs(13e9, 128 * 1024, 66e12);
  question.problem.rates = {1e12, 1e12, 1e12};
  question.problem.host_available = 1e13;
  question.tensors = gpt_tensors(40, 5120, 128 * 1024, 66e12, 1);
  EXPECT_EQ(best_prefix(question).count, question.tensors.size());
}

TEST(IterationModel, HostMemoryBeyondTheSwappedBytesCostsNothing) {
  SwapProblem problem;
  problem.costs = ratel_costs(13e9, 8192, 160e12);
  problem.rates = {21e9, 6.5e9, 3.4e9};
  problem.host_available = 1e15;  // Eq. (3) as printed would make alpha A negative
  const double here = iteration_time(problem, 1e9, 0).total();
  problem.host_available = 1e9;
  EXPECT_DOUBLE_EQ(here, iteration_time(problem, 1e9, 0).total());
}

TEST(IterationModel, TheCalibratedRecomputationIsThatOfEquationSeven) {
  for (const RatelConstants& server : {ratel_server_4090(12), ratel_server_3090(12)}) {
    const RatelCase c = thirteen_billion(32 * 1024);
    const std::vector<Tensor> tensors = tensors_of(server, c);
    for (double units = 1; units <= 17; units += 0.5) {
      EXPECT_NEAR(calibrated_recompute(server, c, units),
                  recompute_time(tensors, units * interblock_bytes(c)), 1e-9)
          << units << " units";
    }
  }
}

// The grid of x = 1, 1.5, ... against whole tensors of single layers: the finer choice is no
// slower than the grid by more than a layer's tensor costs, and both see the same model.
TEST(IterationModel, WholeTensorsAreAsGoodAsTheCalibratedGrid) {
  for (const int batch : {8, 16, 32, 64, 128}) {
    const RatelCase c = thirteen_billion(1024.0 * batch);
    const RatelConstants server = ratel_server_4090(12);
    const double elementwise = elementwise_seconds(server, c);
    Question question;
    SwapProblem& problem = question.problem;
    problem.costs = ratel_costs(c.parameters, c.tokens, server.flops);
    problem.costs.forward_compute += elementwise;
    problem.costs.backward_compute += 2 * elementwise;
    problem.costs.drive_wait = server.host_work * c.parameters;
    problem.rates = server.rates;
    problem.host_available = c.host_available;
    question.tensors = tensors_of(server, c);
    const double whole = best_prefix(question).time;
    const CalibratedStep grid = calibrated_step(server, c);
    EXPECT_LE(whole, grid.step * 1.001) << "b=" << batch;
    EXPECT_GE(whole, grid.step * 0.98) << "b=" << batch;
  }
}

}  // namespace
}  // namespace ferry
