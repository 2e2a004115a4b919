// What blocks launch, as docs/performance.md ("What a block launches") has it.
#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "device/simulation.h"
#include "model/testing.h"
#include "optim/adamw.h"
#include "spec/layout.h"
#include "train/block_bench.h"
#include "train/device_update.h"
#include "train/operator_count.h"

namespace ferry {
namespace {

/// torch's versions differ by a few operators.
constexpr double kTolerance = 0.1;

struct Counted {
  long forward = 0, backward = 0, kept_backward = 0;  // 0: there is none
};

Counted operator-(const Counted& a, const Counted& b) {
  return {a.forward - b.forward, a.backward - b.backward, a.kept_backward - b.kept_backward};
}

class LaunchCounts : public testing::Test {
 protected:
  LaunchCounts() {
    SimOptions options;
    options.devices = {{256_MiB, 1, {}, {}, 0}};
    options.strict = true;
    simdev_open(options);
  }
  ~LaunchCounts() override { simdev_close(); }

  /// Of a bf16 Llama's block and the last of two micro-batches, its sum's norm included.
  static Counted count(BlockKind kind, int tokens) {
    const ModelSpec model = small_model("llama");
    const MeasureRequest request{.model = model,
                                 .micro_batch_size = 1,
                                 .sequence = tokens,
                                 .precision = Precision::bf16,
                                 .device = "sim:0",
                                 .memory = 200_MiB};
    const auto blocks = model.blocks.ids();
    const BlockId block =
        *std::ranges::find_if(blocks, [&](BlockId id) { return model.blocks[id].kind == kind; });
    Bytes saved;
    if (can_save(model.blocks[block])) {
      BlockBench bench(model, request, block, 0_B);
      saved = count_saved(bench, model, request);
    }
    BlockBench bench(model, request, block, saved);
    const c10::StreamGuard current(bench.device.stream("compute"));
    const auto operators = [&](TaskId task) {
      if (!task.valid()) return 0L;
      const OperatorCount counted;
      bench.work(task)();
      return counted.count();
    };
    Counted found;
    found.forward = operators(bench.made.forward);
    found.backward = operators(bench.made.last_backward);
    operators(bench.made.saving_forward);
    found.kept_backward = operators(bench.made.saved_backward);
    bench.device.synchronize();
    return found;
  }

  static void expect_about(long found, long documented) {
    const auto wanted = static_cast<double>(documented);
    EXPECT_NEAR(static_cast<double>(found), wanted, kTolerance * wanted);
  }

  static void expect_about(const Counted& found, const Counted& documented) {
    expect_about(found.forward, documented.forward);
    expect_about(found.backward, documented.backward);
    expect_about(found.kept_backward, documented.kept_backward);
  }
};

TEST_F(LaunchCounts, OfBlocksAreThoseOfTheTable) {
  expect_about(count(BlockKind::embedding, 64), {2, 7, 0});
  expect_about(count(BlockKind::attention, 64), {23, 103, 92});
  expect_about(count(BlockKind::mlp, 64), {15, 70, 73});
  expect_about(count(BlockKind::norm, 64), {10, 33, 0});
  expect_about(count(BlockKind::head, 64), {0, 28, 0});
}

TEST_F(LaunchCounts, OfFurtherChunksAreThoseOfTheTable) {
  expect_about(count(BlockKind::mlp, 12288) - count(BlockKind::mlp, 8192), {15, 53, 56});
  expect_about(count(BlockKind::head, 30000) - count(BlockKind::head, 64), {0, 20, 0});
}

TEST_F(LaunchCounts, OfAnUpdatesPieceAreThoseOfTheTable) {
  const auto numbers = [](at::ScalarType type) {
    return at::zeros({kUpdatePieceElements}, at::TensorOptions(type).device("sim:0"));
  };
  const DeviceState state{.weight = numbers(at::kBFloat16),
                          .lo = numbers(at::kShort),
                          .m = numbers(at::kFloat),
                          .v = numbers(at::kFloat),
                          .gradient = numbers(at::kFloat)};
  const at::Tensor scale = at::ones({}, at::TensorOptions(at::kFloat).device("sim:0"));
  const OperatorCount counted;
  device_adamw_step(adamw_factors(AdamW{}, 1.0F, /*decay=*/true), state, scale);
  expect_about(counted.count(), 23);
}

}  // namespace
}  // namespace ferry
