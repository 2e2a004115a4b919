// A block over packed documents on every make of device, against the CPU; cuda is skipped where
// there is none.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "device/simulation.h"
#include "device/testing.h"
#include "model/block.h"
#include "model/testing.h"

namespace ferry {
namespace {

using at::Tensor;

class PackedRows : public testing::TestWithParam<std::string> {
 protected:
  // torch trains on one kind of device per process, and simulated ones come first.
  PackedRows() {
    if (!simulated()) return;
    SimOptions options;
    options.devices = {{64_MiB, 1, {}, {}, 0}};
    simdev_open(options);
  }
  ~PackedRows() override {
    if (simulated()) simdev_close();
  }
  static bool simulated() { return GetParam() == "sim:0"; }
};

/// Output and gradients, in fp32 on the CPU. Runs where `x` lies.
std::vector<Tensor> results(const ModelSpec& model, const Tensor& x, const Tensor& dy,
                            const std::vector<Tensor>& weights, const Positions& positions) {
  const BlockSpec& block = *std::ranges::find(model.blocks, BlockKind::attention, &BlockSpec::kind);
  const BlockGradients gradients = backward(model, block, x, weights, dy, positions);
  std::vector<Tensor> found{forward(model, block, x, weights, positions), gradients.x};
  found.insert(found.end(), gradients.weights.begin(), gradients.weights.end());
  for (Tensor& tensor : found) tensor = tensor.to(at::kFloat).cpu();
  return found;
}

TEST_P(PackedRows, HaveTheResultsOfTheCpu) {
  const DeviceIfHere here(GetParam());
  if (!here.device) GTEST_SKIP() << here.why_not;
  at::Generator random = at::globalContext().defaultGenerator(at::kCPU);
  random.set_current_seed(6);  // at::manual_seed() asks simulated devices for theirs
  const ModelSpec model = small_model("llama");
  const auto on_device = [&](const Tensor& x) { return x.to(here.device->torch_device()); };
  const std::vector<Tensor> weights = random_weights(
      *std::ranges::find(model.blocks, BlockKind::attention, &BlockSpec::kind), at::kBFloat16);
  std::vector<Tensor> there;
  std::ranges::transform(weights, std::back_inserter(there), on_device);
  const Tensor x = at::randn({2, 64, model.hidden}).to(at::kBFloat16);
  const Tensor dy = at::randn({2, 64, model.hidden}).to(at::kBFloat16);
  const Positions packed{.documents = {20, 1, 43, 33, 31}};

  const std::vector<Tensor> expected = results(model, x, dy, weights, packed);
  const std::vector<Tensor> found = results(model, on_device(x), on_device(dy), there, packed);
  const std::vector<Tensor> whole = results(model, x, dy, weights, {});
  constexpr double kRounding = 0.02;  // of bf16, a few operations deep
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_LT(relative_error(found[i], expected[i]), kRounding) << i;
  }
  EXPECT_GT(relative_error(whole[0], expected[0]), 2 * kRounding) << "documents make a difference";
}

INSTANTIATE_TEST_SUITE_P(Makes, PackedRows, testing::Values("sim:0", "cuda:0"),
                         [](const auto& make) {
                           return make.param.substr(0, make.param.find(':'));
                         });

}  // namespace
}  // namespace ferry
