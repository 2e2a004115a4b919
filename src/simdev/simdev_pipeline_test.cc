// An offload pipeline in small: six blocks with their weights on the host, two weight slots and two
// gradient slots on the device, three streams. Every wait that is left out must be reported.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <thread>

#include "simdev/simdev.h"

namespace ferry {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

constexpr c10::DeviceType kSim = c10::DeviceType::PrivateUse1;
constexpr std::int64_t kBlocks = 6, kWidth = 32, kRows = 24, kWeights = 2 * kWidth * kWidth;

/// What is left out of the pipeline.
enum class Omit {
  kNothing,
  kComputeWaitsForLoad,
  kLoadWaitsForSlotRelease,
  kOffloadWaitsForGradient,
  kComputeWaitsForGradientSlot,
  kHostWaitsForGradients,
  kRightStream,
};

Tensor random(at::IntArrayRef sizes, std::uint64_t seed) {
  return at::randn(sizes, at::detail::createCPUGenerator(seed), at::kFloat) / 6;
}

/// A block: two matrices, kept in one flat tensor.
Tensor run_block(const Tensor& x, const Tensor& flat) {
  const Tensor w = flat.view({2, kWidth, kWidth});
  return x + at::linear(at::silu(at::linear(x, w.select(0, 0))), w.select(0, 1));
}

/// The gradients of x and of the flat weights.
Tensors block_gradients(const Tensor& x, const Tensor& flat, const Tensor& dy) {
  const Tensor leaf = x.detach().requires_grad_(), weights = flat.detach().requires_grad_();
  return torch::autograd::grad({run_block(leaf, weights)}, {leaf, weights}, {dy});
}

struct Host {
  Tensors weights, gradients;
  Tensor x = random({kRows, kWidth}, 50), dy = random({kRows, kWidth}, 51);

  Host() {
    for (std::uint64_t block = 0; block < kBlocks; ++block) {
      weights.push_back(random({kWeights}, block));
      gradients.push_back(at::full({kWeights}, 7.0));
    }
  }

  Tensors gradients_in_memory() const {
    Tensors activations = {x};
    for (const Tensor& w : weights) {
      const at::NoGradGuard no_grad;
      activations.push_back(run_block(activations.back(), w));
    }
    Tensors want(kBlocks);
    Tensor upstream = dy;
    for (std::size_t b = kBlocks; b-- > 0;) {
      const Tensors pair = block_gradients(activations[b], weights[b], upstream);
      upstream = pair[0];
      want[b] = pair[1];
    }
    return want;
  }
};

/// One device slab, cut by hand as a plan does, and the three streams.
class Pipeline {
 public:
  Pipeline(Host& host, Omit omit) : host_(host), omit_(omit) {
    simdev_name_stream(compute_, "compute");
    simdev_name_stream(load_, "load");
    simdev_name_stream(offload_, "offload");
    for (std::size_t s = 0; s < 2; ++s) {
      weight_slots_[s] = take({kWeights}, "W" + std::to_string(s));
      gradient_slots_[s] = take({kWeights}, "G" + std::to_string(s));
      upstream_[s] = take({kRows, kWidth}, "dA" + std::to_string(s));
    }
    for (std::int64_t b = 0; b <= kBlocks; ++b) {
      activations_.push_back(take({kRows, kWidth}, "A" + std::to_string(b)));
    }
    accelerator_.synchronizeDevice(0);
  }

  void run() {
    load_inputs();
    load_weights(0, 0);
    for (std::size_t step = 0; step < 2 * kBlocks; ++step) {
      const bool forward = step < kBlocks;
      const std::size_t slot = step % 2, block = block_of(step);
      if (step + 1 < 2 * kBlocks) load_weights(block_of(step + 1), 1 - slot);
      if (omit_ != Omit::kComputeWaitsForLoad) loaded_[slot].block(compute_);
      if (forward) {
        run_forward(block, slot);
      } else {
        run_backward(block, slot, step - kBlocks);
      }
      freed_[slot].record(compute_);
    }
    if (omit_ != Omit::kHostWaitsForGradients) accelerator_.synchronizeStream(offload_);
  }

  /// What the optimizer does on the host.
  void update_on_host() {
    for (std::size_t b = 0; b < kBlocks; ++b) {
      const Tensor &w = host_.weights[b], &g = host_.gradients[b];
      simdev_host_access(g.const_data_ptr(), bytes_of(g), false, "optimizer");
      simdev_host_access(w.const_data_ptr(), bytes_of(w), true, "optimizer");
    }
  }

  void finish() { accelerator_.synchronizeDevice(0); }

 private:
  static Bytes bytes_of(const Tensor& tensor) {
    return {static_cast<std::int64_t>(tensor.nbytes())};
  }
  static std::size_t block_of(std::size_t step) {
    return step < kBlocks ? step : 2 * kBlocks - 1 - step;
  }

  Tensor take(at::IntArrayRef sizes, const std::string& name) {
    const std::int64_t size = c10::multiply_integers(sizes) * 4;
    const Tensor slot = slab_.narrow(0, taken_, size).view(at::kFloat).view(sizes);
    simdev_name_range(slot.const_data_ptr(), {size}, name);
    taken_ += size;
    return slot;
  }

  c10::Stream compute_stream() const {
    return omit_ == Omit::kRightStream ? accelerator_.getDefaultStream(device_) : compute_;
  }

  void load_inputs() {
    const c10::StreamGuard guard(load_);
    activations_[0].copy_(host_.x, true);
    upstream_[0].copy_(host_.dy, true);
    c10::Event there(kSim);
    there.record(load_);
    there.block(compute_);
  }

  void load_weights(std::size_t block, std::size_t slot) {
    if (omit_ != Omit::kLoadWaitsForSlotRelease) freed_[slot].block(load_);
    const c10::StreamGuard guard(load_);
    simdev_set_label("load." + std::to_string(block));
    weight_slots_[slot].copy_(host_.weights[block], true);
    loaded_[slot].record(load_);
  }

  void run_forward(std::size_t block, std::size_t slot) {
    const at::NoGradGuard no_grad;
    const c10::StreamGuard guard(compute_stream());
    simdev_set_label("F." + std::to_string(block));
    activations_[block + 1].copy_(run_block(activations_[block], weight_slots_[slot]));
  }

  void run_backward(std::size_t block, std::size_t slot, std::size_t step) {
    if (omit_ != Omit::kComputeWaitsForGradientSlot) offloaded_[slot].block(compute_);
    {
      const c10::StreamGuard guard(compute_stream());
      simdev_set_label("B." + std::to_string(block));
      const Tensors gradients =
          block_gradients(activations_[block], weight_slots_[slot], upstream_[step % 2]);
      upstream_[1 - step % 2].copy_(gradients[0]);
      gradient_slots_[slot].copy_(gradients[1]);
    }
    ready_[slot].record(compute_);
    if (omit_ != Omit::kOffloadWaitsForGradient) ready_[slot].block(offload_);
    const c10::StreamGuard guard(offload_);
    simdev_set_label("offload." + std::to_string(block));
    host_.gradients[block].copy_(gradient_slots_[slot], true);
    offloaded_[slot].record(offload_);
  }

  Host& host_;
  const Omit omit_;
  const c10::Device device_{kSim, 0};
  const c10::impl::VirtualGuardImpl accelerator_{kSim};
  const c10::Stream compute_ = accelerator_.getNewStream(device_, 0);
  const c10::Stream load_ = accelerator_.getNewStream(device_, 0);
  const c10::Stream offload_ = accelerator_.getNewStream(device_, 0);
  const Tensor slab_ = at::empty({256 * 1024}, at::TensorOptions(at::kByte).device(device_));
  std::int64_t taken_ = 0;
  std::array<Tensor, 2> weight_slots_, gradient_slots_, upstream_;
  Tensors activations_;
  std::array<c10::Event, 2> loaded_{c10::Event(kSim), c10::Event(kSim)};
  std::array<c10::Event, 2> freed_{c10::Event(kSim), c10::Event(kSim)};
  std::array<c10::Event, 2> ready_{c10::Event(kSim), c10::Event(kSim)};
  std::array<c10::Event, 2> offloaded_{c10::Event(kSim), c10::Event(kSim)};
};

class OffloadPipeline : public testing::Test {
 protected:
  void SetUp() override {
    at::set_num_threads(1);
    c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
    SimOptions options;
    options.pool_capacities = {200e6};
    options.devices = {{8_MiB, 1, {{0, 200e6}}, {{0, 200e6}}, 5}};
    options.hazards = options.poison = options.strict = true;
    simdev_open(options);
  }
  void TearDown() override {
    simdev_set_label("");
    simdev_close();
  }

  static std::vector<Hazard> hazards_when_omitting(Omit omit) {
    Host host;
    Pipeline pipeline(host, omit);
    pipeline.run();
    pipeline.update_on_host();
    pipeline.finish();
    return simdev_hazards();
  }
};

bool contains(const std::vector<Hazard>& hazards, Hazard::Kind kind, const std::string& range,
              const std::string& later, const std::string& earlier) {
  return std::any_of(hazards.begin(), hazards.end(), [&](const Hazard& h) {
    return h.kind == kind && h.range == range && h.later.label == later &&
           h.earlier.label == earlier;
  });
}

TEST_F(OffloadPipeline, WithAllWaitsItIsRightBitForBitAndReportsNothing) {
  Host host;
  const Tensors want = host.gradients_in_memory();
  Pipeline pipeline(host, Omit::kNothing);
  simdev_reset_stats();
  pipeline.run();
  EXPECT_EQ(simdev_stats(0).host_syncs, 1) << "the one at the end";
  for (std::size_t b = 0; b < kBlocks; ++b) EXPECT_TRUE(at::equal(host.gradients[b], want[b])) << b;
  pipeline.update_on_host();
  for (const Hazard& hazard : simdev_hazards()) ADD_FAILURE() << to_string(hazard);
}

TEST_F(OffloadPipeline, ComputeThatDoesNotWaitForItsWeightsIsReported) {
  EXPECT_TRUE(contains(hazards_when_omitting(Omit::kComputeWaitsForLoad),
                       Hazard::Kind::kReadAfterWrite, "W0", "F.0", "load.0"));
}

TEST_F(OffloadPipeline, ALoadThatDoesNotWaitForItsSlotIsReported) {
  EXPECT_TRUE(contains(hazards_when_omitting(Omit::kLoadWaitsForSlotRelease),
                       Hazard::Kind::kWriteAfterRead, "W0", "load.2", "F.0"));
}

TEST_F(OffloadPipeline, AnOffloadThatDoesNotWaitForItsGradientIsReported) {
  EXPECT_TRUE(contains(hazards_when_omitting(Omit::kOffloadWaitsForGradient),
                       Hazard::Kind::kReadAfterWrite, "G0", "offload.5", "B.5"));
}

TEST_F(OffloadPipeline, AGradientWrittenOverOneThatIsStillCopiedIsReported) {
  EXPECT_TRUE(contains(hazards_when_omitting(Omit::kComputeWaitsForGradientSlot),
                       Hazard::Kind::kWriteAfterRead, "G0", "B.3", "offload.5"));
}

TEST_F(OffloadPipeline, AHostThatReadsGradientsWithoutWaitingIsReported) {
  const auto hazards = hazards_when_omitting(Omit::kHostWaitsForGradients);
  ASSERT_FALSE(hazards.empty());
  EXPECT_EQ(hazards[0].later.stream, "host");
  EXPECT_EQ(hazards[0].later.op, "optimizer");
  EXPECT_EQ(hazards[0].earlier.stream, "sim:0/offload");
}

TEST_F(OffloadPipeline, ComputeOnTheWrongStreamIsReported) {
  const auto hazards = hazards_when_omitting(Omit::kRightStream);
  EXPECT_TRUE(contains(hazards, Hazard::Kind::kReadAfterWrite, "W0", "F.0", "load.0"));
  EXPECT_EQ(hazards[0].later.stream, "sim:0/default");
}

// Weights are written on the host while the next step's load may still read them.
TEST_F(OffloadPipeline, AHostThatWritesWhatIsStillBeingLoadedIsReported) {
  Host host;
  Pipeline pipeline(host, Omit::kHostWaitsForGradients);
  pipeline.run();
  pipeline.update_on_host();
  const auto hazards = simdev_hazards();
  EXPECT_TRUE(std::any_of(hazards.begin(), hazards.end(), [](const Hazard& h) {
    return h.kind == Hazard::Kind::kWriteAfterRead && h.later.op == "optimizer" &&
           h.earlier.op == "copy host to sim:0";
  }));
  pipeline.finish();
}

// What another thread has waited for counts where that thread has said so, not where it happened to
// wait before this one enqueued.
TEST_F(OffloadPipeline, AThreadOfItsOwnRightHasSeenWhatItWasTold) {
  const c10::Device device(kSim, 0);
  const c10::impl::VirtualGuardImpl accelerator(kSim);
  const c10::Stream load = accelerator.getNewStream(device, 0);
  const Tensor host = at::ones({4096});
  for (const bool told : {true, false}) {
    Tensor loaded;
    {
      const c10::StreamGuard guard(load);
      loaded = at::empty({4096}, device);
      loaded.copy_(host, true);
    }
    accelerator.synchronizeStream(load);
    std::thread([&, seen = simdev_host_clock()] {
      simdev_host_thread("launches");
      if (told) simdev_host_join(seen);
      const at::NoGradGuard no_graph;
      loaded.add_(1);
    }).join();
    EXPECT_EQ(simdev_hazards().empty(), told);
    accelerator.synchronizeDevice(0);
  }
}

TEST_F(OffloadPipeline, ATemporaryFreedWhileAnotherStreamCopiesItIsReported) {
  const c10::Device device(kSim, 0);
  const c10::impl::VirtualGuardImpl accelerator(kSim);
  const c10::Stream offload = accelerator.getNewStream(device, 0);
  const Tensor host = at::zeros({4096});
  for (const bool waits : {true, false}) {
    {
      const Tensor temporary = at::ones({4096}, device);
      c10::Event ready(kSim), copied(kSim);
      ready.record(accelerator.getStream(device));
      {
        const c10::StreamGuard guard(offload);
        ready.block(offload);
        host.copy_(temporary, true);
        copied.record(offload);
      }
      if (waits) copied.block(accelerator.getStream(device));
    }
    if (waits) {
      ASSERT_TRUE(simdev_hazards().empty());
    }
    accelerator.synchronizeDevice(0);
  }
  const auto hazards = simdev_hazards();
  ASSERT_FALSE(hazards.empty());
  EXPECT_EQ(hazards[0].later.op, "free");
}

}  // namespace
}  // namespace ferry
