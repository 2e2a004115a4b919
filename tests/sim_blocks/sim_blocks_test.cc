// Every block kind of every family gives the plain CPU's bits on a sim device, forward and
// backward, in fp32 and bf16, without waiting for its stream: strict mode refuses what would.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "model/block.h"
#include "model/head.h"
#include "model/testing.h"
#include "simdev/simdev.h"

namespace ferry {
namespace {

using Tensors = std::vector<at::Tensor>;

class SimBlocks : public testing::TestWithParam<std::tuple<std::string, at::ScalarType>> {
 protected:
  void SetUp() override {
    at::set_num_threads(1);
    at::manual_seed(21);
    c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
    SimOptions options;
    options.devices = {{256_MiB, 1, {}, {}, 0}, {256_MiB, 1, {}, {}, 0}};
    options.hazards = options.poison = options.strict = true;
    simdev_open(options);
  }
  void TearDown() override {
    for (const Hazard& hazard : simdev_hazards()) ADD_FAILURE() << to_string(hazard);
    simdev_close();
  }

  const at::ScalarType type = std::get<1>(GetParam());
  const ModelSpec model = small_model(std::get<0>(GetParam()));
};

Tensors moved(const Tensors& tensors, const at::Device& device) {
  Tensors result;
  for (const at::Tensor& tensor : tensors) result.push_back(tensor.to(device));
  return result;
}

/// What a pass computes from host tensors on a device, back on the host.
using Pass = std::function<Tensors(const at::Device&)>;

/// The pass on both devices at once, each fed by a thread of its own, equals the plain CPU's.
void expect_as_on_cpu(const Pass& pass) {
  const Tensors want = pass(at::Device("cpu"));
  std::vector<Tensors> got(2);
  std::vector<std::thread> threads;
  for (std::size_t k = 0; k < got.size(); ++k) {
    threads.emplace_back([&pass, &got, k] {
      c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
      got[k] = pass(at::Device("sim:" + std::to_string(k)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Tensors& tensors : got) {
    ASSERT_EQ(tensors.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_TRUE(tensors[i].equal(want[i])) << "tensor " << i;
    }
  }
}

TEST_P(SimBlocks, EqualTheCpuBitForBit) {
  for (const Positions& positions : {Positions{}, Positions{.documents = {5, 7, 4}}}) {
    for (std::size_t i = 0; i + 1 < model.blocks.size(); ++i) {
      const BlockSpec& block = model.blocks[i];
      SCOPED_TRACE(to_string(block.kind));
      const Tensors weights = random_weights(block, type);
      const at::Tensor x =
          i == 0 ? at::randint(50, {2, 8}) : at::randn({2, 8, model.hidden}).to(type);
      const at::Tensor dy = at::randn({2, 8, model.hidden}).to(type);
      expect_as_on_cpu([&](const at::Device& device) {
        const Tensors there = moved(weights, device);
        const at::Tensor input = x.to(device);
        Tensors results{forward(model, block, input, there, positions)};
        const BlockGradients found = backward(model, block, input, there, dy.to(device), positions);
        if (i > 0) results.push_back(found.x);
        results.insert(results.end(), found.weights.begin(), found.weights.end());
        return moved(results, at::kCPU);
      });
    }
  }
}

// Swapped in between: the slot's bytes go to another one.
TEST_P(SimBlocks, BackwardOfASavedForwardEqualsTheCpuBitForBit) {
  for (const Positions& positions : {Positions{}, Positions{.documents = {5, 7, 4}}}) {
    for (std::size_t i = 1; i + 2 < model.blocks.size(); ++i) {
      const BlockSpec& block = model.blocks[i];
      SCOPED_TRACE(to_string(block.kind));
      const Tensors weights = random_weights(block, type);
      const at::Tensor x = at::randn({2, 8, model.hidden}).to(type);
      const at::Tensor dy = at::randn({2, 8, model.hidden}).to(type);
      const Bytes size = forward_saving(model, block, x, weights, {}, positions).bytes;
      expect_as_on_cpu([&](const at::Device& device) {
        const Tensors there = moved(weights, device);
        const at::Tensor input = x.to(device);
        const at::Tensor slot =
            at::empty({size.count}, at::TensorOptions(at::kByte).device(device));
        const SavingResult kept = forward_saving(model, block, input, there, slot, positions);
        const at::Tensor other = slot.clone();
        slot.fill_(0x7f);
        const BlockGradients found =
            backward_saved(model, block, input, there, dy.to(device), other, *kept.saved);
        Tensors results{kept.y, found.x};
        results.insert(results.end(), found.weights.begin(), found.weights.end());
        return moved(results, at::kCPU);
      });
    }
  }
}

TEST_P(SimBlocks, WhatAForwardKeepsIsInItsSlotAlone) {
  const at::Device device(at::kPrivateUse1, 0);
  for (const Positions& positions : {Positions{}, Positions{.documents = {5, 7, 4}}}) {
    for (std::size_t i = 1; i + 2 < model.blocks.size(); ++i) {
      const BlockSpec& block = model.blocks[i];
      SCOPED_TRACE(to_string(block.kind));
      const Tensors there = moved(random_weights(block, type), device);
      const at::Tensor x = at::randn({2, 8, model.hidden}).to(type).to(device);
      const Bytes size = forward_saving(model, block, x, there, {}, positions).bytes;
      const at::Tensor slot = at::empty({size.count}, at::TensorOptions(at::kByte).device(device));
      const Bytes before = simdev_stats(0).live;
      std::shared_ptr<SavedForward> saved =
          forward_saving(model, block, x, there, slot, positions).saved;
      EXPECT_EQ(simdev_stats(0).live, before);
    }
  }
}

TEST_P(SimBlocks, HeadEqualsTheCpuBitForBit) {
  const at::Tensor x = at::randn({2, 8, model.hidden}).to(type);
  const at::Tensor weight = at::randn({50, model.hidden}).to(type);
  const at::Tensor labels = at::randint(50, {2, 8});
  labels[1].narrow(0, 3, 5).fill_(kIgnoredLabel);
  expect_as_on_cpu([&](const at::Device& device) {
    const HeadInput input{.x = x.to(device),
                          .weight = weight.to(device),
                          .labels = labels.to(device),
                          .scale = 1.0 / 11,
                          .chunk_rows = 7};
    const at::Tensor dw = at::zeros({50, model.hidden}, at::TensorOptions(device));
    const at::Tensor loss = head_loss(input);
    const HeadResult found = head_forward_backward(input, dw, true);
    return moved({loss, found.loss, found.dx, dw}, at::kCPU);
  });
}

INSTANTIATE_TEST_SUITE_P(, SimBlocks,
                         testing::Combine(testing::ValuesIn(family_names()),
                                          testing::Values(at::kFloat, at::kBFloat16)),
                         [](const auto& parameter) {
                           return std::get<0>(parameter.param) +
                                  (std::get<1>(parameter.param) == at::kFloat ? "_fp32" : "_bf16");
                         });

}  // namespace
}  // namespace ferry
