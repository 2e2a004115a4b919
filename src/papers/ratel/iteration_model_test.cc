#include "papers/ratel/iteration_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "papers/ratel/ratel_calibration.h"
#include "papers/ratel/ratel_servers.h"

namespace ferry {
namespace {

// Values over several orders of magnitude, so that each term of the model binds now and then.
double any(std::mt19937_64& random, double low, double high) {
  std::uniform_real_distribution<double> exponent(std::log(low), std::log(high));
  return std::exp(exponent(random));
}

SwapProblem random_problem(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  SwapProblem problem;
  problem.costs =
      ratel_costs(any(random, 1e9, 1e11), any(random, 1e3, 1e6), any(random, 1e13, 1e15));
  problem.costs.drive_wait = random() % 2 == 0 ? 0 : any(random, 0.1, 100);
  problem.rates = {any(random, 1e9, 1e11), any(random, 1e9, 1e11), any(random, 1e9, 1e11)};
  problem.host_available = any(random, 1e6, 1e12);
  const std::size_t count = 1 + random() % 24;
  for (std::size_t i = 0; i < count; ++i) {
    SwapTensor tensor;
    tensor.bytes = any(random, 1e8, 1e11);
    tensor.must_be_swapped = random() % 4 == 0;
    tensor.recompute = random() % 8 == 0 ? 0 : any(random, 1e-4, 1) * tensor.bytes / 1e10;
    problem.tensors.push_back(tensor);
  }
  return problem;
}

struct Prefix {
  double bytes = 0;
  double time = std::numeric_limits<double>::infinity();
};

// The fastest prefix of the order that holds every block input; the shortest of several.
Prefix best_prefix(const SwapProblem& problem) {
  const std::vector<std::size_t> order = swap_order(problem.tensors);
  Prefix best;
  for (std::size_t count = 0; count <= order.size(); ++count) {
    double bytes = 0;
    double recompute = 0;
    bool safe = true;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const SwapTensor& tensor = problem.tensors[order[i]];
      if (i < count) {
        bytes += tensor.bytes;
      } else {
        recompute += tensor.recompute;
        safe = safe && !tensor.must_be_swapped;
      }
    }
    if (!safe) continue;
    const double time = iteration_time(problem, bytes, recompute).total();
    if (time < best.time) best = {bytes, time};
  }
  return best;
}

TEST(IterationModel, AlgorithmOneFindsTheBestPrefix) {
  for (std::uint64_t seed = 0; seed < 5000; ++seed) {
    const SwapProblem problem = random_problem(seed);
    const SwapChoice choice = choose_swaps(problem);
    const Prefix best = best_prefix(problem);
    ASSERT_NEAR(choice.time.total(), best.time, 1e-12 * best.time) << "seed " << seed;
  }
}

TEST(IterationModel, TheAnswerAccountsForEveryByteAndSecond) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const SwapProblem problem = random_problem(seed);
    const SwapChoice choice = choose_swaps(problem);
    double bytes = 0;
    double recompute = 0;
    for (const SwapTensor& tensor : problem.tensors) recompute += tensor.recompute;
    for (const std::size_t i : choice.swapped) {
      bytes += problem.tensors[i].bytes;
      recompute -= problem.tensors[i].recompute;
    }
    ASSERT_DOUBLE_EQ(choice.bytes, bytes) << "seed " << seed;  // no rejected tensor in it
    ASSERT_NEAR(choice.recompute, recompute, 1e-9) << "seed " << seed;
    ASSERT_NEAR(choice.host_bytes + choice.drive_bytes, bytes, 1e-9 * bytes);
    ASSERT_LE(choice.host_bytes, problem.host_available);
    for (std::size_t i = 0; i < problem.tensors.size(); ++i) {
      if (!problem.tensors[i].must_be_swapped) continue;
      ASSERT_NE(std::find(choice.swapped.begin(), choice.swapped.end(), i), choice.swapped.end())
          << "seed " << seed;
    }
  }
}

TEST(IterationModel, StepTimeIsConvexInTheSwappedBytes) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const SwapProblem problem = random_problem(seed);
    double pinned = 0;
    double all = 0;
    for (const SwapTensor& tensor : problem.tensors) {
      all += tensor.bytes;
      if (tensor.must_be_swapped) pinned += tensor.bytes;
    }
    const auto time = [&](double bytes) {
      return iteration_time(problem, bytes, recompute_time(problem.tensors, bytes)).total();
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

TEST(IterationModel, BenefitsOrderFc2BeforeTheOthers) {
  const double hidden = 5120;
  const double flops = 175e12;
  const auto tensors = gpt_swap_tensors(2, hidden, 8192, flops, 1e-3);
  for (const SwapTensor& tensor : tensors) {
    const double benefit = tensor.recompute * flops / tensor.bytes;  // FLOPs per byte
    if (tensor.name == "input" || tensor.name == "elementwise") continue;
    EXPECT_NEAR(benefit, tensor.name == "fc2" ? 4 * hidden : hidden, 1e-6) << tensor.name;
  }
  const std::vector<std::size_t> order = swap_order(tensors);
  EXPECT_EQ(tensors[order[0]].name, "input");
  EXPECT_EQ(tensors[order[1]].name, "input");
  EXPECT_EQ(tensors[order[2]].name, "fc2");
  EXPECT_EQ(tensors[order[3]].name, "fc2");
}

TEST(IterationModel, GptTensorsAreThirtyFourBytesPerTokenAndUnitOfWidth) {
  double bytes = 0;
  double products = 0;
  for (const SwapTensor& tensor : gpt_swap_tensors(40, 5120, 32 * 1024, 175e12, 0)) {
    bytes += tensor.bytes;
    products += tensor.recompute;
  }
  EXPECT_DOUBLE_EQ(bytes, 34.0 * 40 * 5120 * 32 * 1024);
  EXPECT_NEAR(products, 24.0 * 5120 * 5120 * 40 * 32 * 1024 / 175e12, 1e-9);  // 2 P per token
}

// Three shapes of the curve: Ratel, section on traffic-aware swapping.
TEST(IterationModel, DrivesThatBindLeaveOnlyBlockInputsSwapped) {
  SwapProblem problem;
  problem.costs = ratel_costs(13e9, 8192, 160e12);
  problem.rates = {21e9, 6.5e9, 3.4e9};
  problem.tensors = gpt_swap_tensors(40, 5120, 8192, 160e12, 0);
  const SwapChoice choice = choose_swaps(problem);
  EXPECT_EQ(choice.swapped.size(), 40U);
  EXPECT_DOUBLE_EQ(choice.bytes, 2.0 * 8192 * 5120 * 40);
  EXPECT_DOUBLE_EQ(choice.drive_bytes, choice.bytes);
}

TEST(IterationModel, AGpuThatBindsHasEverythingSwapped) {
  SwapProblem problem;
  problem.costs = ratel_costs(13e9, 128 * 1024, 66e12);
  problem.rates = {1e12, 1e12, 1e12};
  problem.host_available = 1e13;
  problem.tensors = gpt_swap_tensors(40, 5120, 128 * 1024, 66e12, 1);
  const SwapChoice choice = choose_swaps(problem);
  EXPECT_EQ(choice.swapped.size(), problem.tensors.size());
  EXPECT_NEAR(choice.recompute, 0, 1e-9);
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

// The grid of x = 1, 1.5, ... against whole tensors of single layers: the finer choice is no
// slower than the grid by more than a layer's tensor costs, and both see the same model.
TEST(IterationModel, WholeTensorsAreAsGoodAsTheCalibratedGrid) {
  for (const int batch : {8, 16, 32, 64, 128}) {
    RatelCase c;
    c.parameters = 12.0 * 5120 * 5120 * 40;  // the layers alone, so that FLOPs agree
    c.layers = 40;
    c.hidden = 5120;
    c.tokens = 1024.0 * batch;
    const RatelConstants server = ratel_server_4090(12);
    const double elementwise = elementwise_seconds(server, c);
    SwapProblem problem;
    problem.costs = ratel_costs(c.parameters, c.tokens, server.flops);
    problem.costs.forward_compute += elementwise;
    problem.costs.backward_compute += 2 * elementwise;
    problem.costs.drive_wait = server.host_work * c.parameters;
    problem.rates = server.rates;
    problem.host_available = c.host_available;
    problem.tensors =
        gpt_swap_tensors(c.layers, c.hidden, c.tokens, server.flops, elementwise / c.layers);
    const SwapChoice choice = choose_swaps(problem);
    const CalibratedStep grid = calibrated_step(server, c);
    EXPECT_LE(choice.time.total(), grid.step * 1.001) << "b=" << batch;
    EXPECT_GE(choice.time.total(), grid.step * 0.98) << "b=" << batch;
  }
}

}  // namespace
}  // namespace ferry
