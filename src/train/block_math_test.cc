// What BlockMath does beside calling blocks: an MLP goes through its tokens in chunks. On simulated
// devices, which count bytes.
#include "train/block_math.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/AutogradState.h>
#include <c10/core/StreamGuard.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "device/simulation.h"
#include "model/testing.h"
#include "spec/row_chunks.h"
#include "train/block_bench.h"

namespace ferry {
namespace {

using Tensors = std::vector<at::Tensor>;

constexpr BlockId kMlp{2};  // embedding, attention, MLP

struct NamedModel {
  std::string name;
  ModelSpec model;
};

NamedModel gated_with_biases() {
  ModelSpec model = small_model("llama");
  model.mlp_bias = true;
  build_blocks(model);
  return {"gated_with_biases", model};
}

/// An MLP on a device, with random numbers in its slots. The model must outlive it.
class MlpOnDevice {
 public:
  MlpOnDevice(const ModelSpec& model, int tokens, Precision precision)
      : request_{.model = model,
                 .micro_batch_size = 1,
                 .sequence = tokens,
                 .precision = precision,
                 .device = "sim:0",
                 .memory = 1_GiB},
        saved_(count_of(model)),
        bench_(model, request_, kMlp, saved_) {
    at::Generator random = at::globalContext().defaultGenerator(at::kCPU);
    random.set_current_seed(3);  // at::manual_seed() asks simulated devices for theirs
    const c10::StreamGuard current(bench_.device.stream("compute"));  // behind what fills the slots
    const at::ScalarType type = precision == Precision::bf16 ? at::kBFloat16 : at::kFloat;
    weights = random_weights(model.blocks[kMlp], type);
    Tensors there =
        weight_views(model, *bench_.plan, bench_.binding, kMlp, instance(ValueKind::weight, kMlp));
    for (std::size_t i = 0; i < weights.size(); ++i) there[i].copy_(weights[i]);
    x = at::randn({tokens, 1, model.hidden}).to(type);
    dy = at::randn_like(x);
    view(ValueKind::activation, kMlp).copy_(x);
    view(ValueKind::activation_gradient, above()).copy_(dy);
    bench_.device.synchronize();
  }

  Bytes run(TaskId BenchPlan::*task) {
    return bench_.watch.weigh(bench_.work(bench_.made.*task)).peak;
  }

  at::Tensor y() { return view(ValueKind::activation, above()).cpu(); }
  at::Tensor dx() { return view(ValueKind::activation_gradient, kMlp).cpu(); }
  double squared_norm() {
    return bench_.binding.view(instance(ValueKind::norm, kMlp), {}, {}, at::kDouble)
        .cpu()
        .item<double>();
  }
  Tensors sums() {
    Tensors found;
    const BlockSpec& block = request_.model.blocks[kMlp];
    const BlockLayout layout = layout_of(block);
    for (std::size_t i = 0; i < block.params.size(); ++i) {
      found.push_back(bench_.binding
                          .view(instance(ValueKind::gradient, kMlp), Bytes{layout.offsets[i] * 4},
                                block.params[i].shape, at::kFloat)
                          .cpu());
    }
    return found;
  }
  Bytes saved_bytes() const { return saved_; }

  /// The most that one call for all tokens takes.
  Bytes peak_of_one_call() {
    const at::Tensor x_there = view(ValueKind::activation, kMlp);
    const at::Tensor dy_there = view(ValueKind::activation_gradient, above());
    const Tensors there = weight_views(request_.model, *bench_.plan, bench_.binding, kMlp,
                                       instance(ValueKind::weight, kMlp));
    return bench_.watch
        .weigh([&] {
          c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
          backward(request_.model, request_.model.blocks[kMlp], x_there, there, dy_there);
        })
        .peak;
  }

  Tensors weights;   // as on the device
  at::Tensor x, dy;  // likewise, [tokens, 1, hidden]

 private:
  Bytes count_of(const ModelSpec& model) {
    BlockBench bench(model, request_, kMlp, 0_B);
    return count_saved(bench, model, request_);
  }

  static BlockId above() {
    BlockId next = kMlp;
    return ++next;
  }

  InstanceId instance(ValueKind kind, BlockId block) const {
    const auto ids = bench_.plan->instances.ids();
    return *std::ranges::find_if(ids, [&](InstanceId id) {
      const Value& value = bench_.plan->values[bench_.plan->instances[id].value];
      return value.kind == kind && value.block == block;
    });
  }

  at::Tensor view(ValueKind kind, BlockId block) const {
    const auto type = request_.precision == Precision::bf16 ? at::kBFloat16 : at::kFloat;
    return bench_.binding.view(instance(kind, block), {},
                               {request_.sequence, 1, request_.model.hidden}, type);
  }

  const MeasureRequest request_;
  const Bytes saved_;
  BlockBench bench_;
};

void open_device(int threads) {
  SimOptions options;
  options.devices = {{1_GiB, threads, {}, {}, 0}};
  options.strict = true;
  simdev_open(options);
}

/// y and the gradients of x and the weights, by torch's own modules and autograd, in double.
Tensors by_autograd(const ModelSpec& model, const MlpOnDevice& mlp) {
  const auto leaf = [](const at::Tensor& tensor) {
    return tensor.to(at::kDouble).requires_grad_();
  };
  Tensors inputs{leaf(mlp.x)};
  for (const at::Tensor& weight : mlp.weights) inputs.push_back(leaf(weight));
  std::size_t next = 1;
  const auto linear = [&](const at::Tensor& value) {
    const at::Tensor& weight = inputs[next++];
    const at::Tensor product = at::matmul(value, model.input_first ? weight : weight.t());
    return model.mlp_bias ? product + inputs[next++] : product;
  };
  at::Tensor normed;
  if (model.norm == NormKind::layer) {
    normed = at::layer_norm(inputs[0], {model.hidden}, inputs[1], inputs[2], model.norm_epsilon);
    next = 3;
  } else {
    normed = at::rms_norm(inputs[0], {model.hidden}, inputs[1], model.norm_epsilon);
    next = 2;
  }
  at::Tensor inner = linear(normed);
  inner = model.activation == Activation::silu ? at::silu(inner) : at::gelu(inner, "tanh");
  if (model.gated_mlp) inner = inner * linear(normed);
  const at::Tensor y = inputs[0] + linear(inner);
  Tensors found = torch::autograd::grad({y}, inputs, {mlp.dy.to(at::kDouble)});
  found.insert(found.begin(), y.detach());
  return found;
}

class MlpInChunks : public testing::TestWithParam<std::tuple<NamedModel, int>> {
 protected:
  MlpInChunks() {
    open_device(std::get<1>(GetParam()));
    at::set_num_threads(std::get<1>(GetParam()));  // as the device's
  }
  ~MlpInChunks() override {
    at::set_num_threads(1);
    simdev_close();
  }

  static constexpr int kTokens = 9001;
  const ModelSpec& model = std::get<0>(GetParam()).model;
};

// Tolerances as in model/block_test.cc; the bf16 ones as in packed_rows_test.cc.
TEST_P(MlpInChunks, HasTheGradientsOfAutograd) {
  const std::vector<RowChunk> chunks =
      row_chunks(kTokens, mlp_chunk_rows(model, {.batch = 1, .time = kTokens}));
  ASSERT_EQ(chunks.size(), 3U);
  ASSERT_NE(chunks.back().rows, chunks.front().rows);

  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    SCOPED_TRACE(to_string(precision));
    const double forward_rounding = precision == Precision::fp32 ? 2e-6 : 0.02;
    const double backward_rounding = precision == Precision::fp32 ? 5e-6 : 0.02;
    MlpOnDevice mlp(model, kTokens, precision);
    const Tensors expected = by_autograd(model, mlp);
    mlp.run(&BenchPlan::forward);
    EXPECT_LT(relative_error(mlp.y(), expected[0]), forward_rounding);

    mlp.run(&BenchPlan::first_backward);  // writes the sum
    mlp.run(&BenchPlan::last_backward);   // adds to it
    EXPECT_LT(relative_error(mlp.dx(), expected[1]), backward_rounding);
    const Tensors sums = mlp.sums();
    double squares = 0;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      SCOPED_TRACE(model.blocks[kMlp].params[i].name);
      EXPECT_LT(relative_error(sums[i], expected[i + 2] * 2), backward_rounding);
      squares += sums[i].to(at::kDouble).square().sum().item<double>();
    }
    EXPECT_NEAR(mlp.squared_norm() / squares, 1.0, 1e-6);
  }
}

TEST_P(MlpInChunks, KeptHasTheBitsOfRecompute) {
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    SCOPED_TRACE(to_string(precision));
    MlpOnDevice mlp(model, kTokens, precision);
    mlp.run(&BenchPlan::forward);
    mlp.run(&BenchPlan::first_backward);
    mlp.run(&BenchPlan::last_backward);
    const at::Tensor y = mlp.y(), dx = mlp.dx();
    const Tensors sums = mlp.sums();
    const double squared_norm = mlp.squared_norm();

    mlp.run(&BenchPlan::saving_forward);
    EXPECT_TRUE(mlp.y().equal(y));
    mlp.run(&BenchPlan::first_backward);
    mlp.run(&BenchPlan::saved_backward);
    EXPECT_TRUE(mlp.dx().equal(dx));
    const Tensors kept = mlp.sums();
    for (std::size_t i = 0; i < sums.size(); ++i) {
      EXPECT_TRUE(kept[i].equal(sums[i])) << model.blocks[kMlp].params[i].name;
    }
    EXPECT_EQ(mlp.squared_norm(), squared_norm);
  }
}

// In ascending order; a sum in bf16 would lose what each chunk adds to its last bits.
TEST_P(MlpInChunks, AddsTheGradientsOfItsChunksInFp32) {
  MlpOnDevice mlp(model, kTokens, Precision::bf16);
  mlp.run(&BenchPlan::first_backward);
  const Tensors sums = mlp.sums();

  Tensors expected;
  for (const auto [first, rows] :
       row_chunks(kTokens, mlp_chunk_rows(model, {.batch = 1, .time = kTokens}))) {
    const BlockGradients found = backward(model, model.blocks[kMlp], mlp.x.narrow(0, first, rows),
                                          mlp.weights, mlp.dy.narrow(0, first, rows));
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (first == 0) expected.push_back(at::zeros(sums[i].sizes()));
      expected[i].add_(found.weights[i]);
    }
  }
  for (std::size_t i = 0; i < sums.size(); ++i) {
    SCOPED_TRACE(model.blocks[kMlp].params[i].name);
    EXPECT_TRUE(sums[i].equal(expected[i]));
    EXPECT_FALSE(sums[i].equal(sums[i].to(at::kBFloat16).to(at::kFloat)));
  }
}

INSTANTIATE_TEST_SUITE_P(, MlpInChunks,
                         testing::Combine(testing::Values(NamedModel{"gated", small_model("llama")},
                                                          gated_with_biases(),
                                                          NamedModel{"plain", small_model("gpt2")}),
                                          testing::Values(1, 2)),
                         [](const auto& parameter) {
                           return std::get<0>(parameter.param).name + "_" +
                                  std::to_string(std::get<1>(parameter.param)) + "_threads";
                         });

// Twice the tokens are twice the chunks; nothing that a task's kernels take has a row per token.
TEST(MlpMemory, IsThatOfOneChunk) {
  open_device(1);
  ModelSpec model = small_model("llama");
  model.intermediate = 256;
  build_blocks(model);
  constexpr int kChunk = 4096;
  ASSERT_EQ(mlp_chunk_rows(model, {.batch = 1, .time = 4 * kChunk}), kChunk);
  {
    MlpOnDevice two(model, 2 * kChunk, Precision::fp32), four(model, 4 * kChunk, Precision::fp32);
    for (const auto task :
         {&BenchPlan::forward, &BenchPlan::saving_forward, &BenchPlan::saved_backward,
          &BenchPlan::first_backward, &BenchPlan::last_backward}) {
      EXPECT_EQ(two.run(task), four.run(task));
    }
    const double whole = static_cast<double>(four.peak_of_one_call().count);
    const double chunk = static_cast<double>(four.run(&BenchPlan::first_backward).count);
    EXPECT_NEAR(whole / chunk, 4.0, 0.2);
    EXPECT_EQ(four.saved_bytes(), Bytes{4 * kChunk * 256 * 4} * 2);  // gate and up, of all tokens
  }
  simdev_close();
}

}  // namespace
}  // namespace ferry
