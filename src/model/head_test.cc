#include "model/head.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "model/testing.h"

namespace ferry {
namespace {

constexpr std::int64_t kTokens = 22, kHidden = 16, kVocab = 37;

struct Expected {
  at::Tensor loss, dx, dw;
};

/// torch's cross-entropy over all logits, in double.
Expected over_full_logits(const HeadInput& input) {
  const at::Tensor x = input.x.to(at::kDouble).requires_grad_();
  const at::Tensor weight = input.weight.to(at::kDouble).requires_grad_();
  const at::Tensor logits = at::linear(x, weight).view({-1, weight.size(0)});
  const at::Tensor loss =
      input.scale * at::cross_entropy_loss(logits, input.labels.view(-1), {}, at::Reduction::Sum);
  const std::vector<at::Tensor> found = torch::autograd::grad({loss}, {x, weight});
  return {loss.detach(), found[0], found[1]};
}

class Head : public testing::Test {
 protected:
  void SetUp() override { at::manual_seed(11); }

  HeadInput input(double spread = 1) const {
    return {.x = at::randn({2, kTokens / 2, kHidden}) * spread,
            .weight = at::randn({kVocab, kHidden}),
            .labels = at::randint(kVocab, {2, kTokens / 2}),
            .scale = 1.0 / 30,
            .chunk_rows = 7};
  }

  /// For every size of chunk: the loss, dx and dw are those over full logits.
  void expect_equal_over_full_logits(HeadInput head, double bound = 2e-6) {
    const Expected expected = over_full_logits(head);
    for (const std::int64_t rows : {std::int64_t{1}, std::int64_t{7}, kTokens}) {
      SCOPED_TRACE("chunks of " + std::to_string(rows));
      head.chunk_rows = rows;
      const at::Tensor dw = at::full({kVocab, kHidden}, 1e9);  // must be overwritten
      const HeadResult found = head_forward_backward(head, dw, false);
      EXPECT_LE((found.loss - expected.loss).abs().item<double>(),
                bound * expected.loss.item<double>());
      EXPECT_TRUE(head_loss(head).equal(found.loss));
      EXPECT_LE((found.dx - expected.dx).norm().item<double>(),
                bound * expected.dx.norm().item<double>());
      EXPECT_LE((dw - expected.dw).norm().item<double>(),
                bound * expected.dw.norm().item<double>());
    }
  }
};

TEST_F(Head, ChunksEqualCrossEntropyOverFullLogits) { expect_equal_over_full_logits(input()); }

TEST_F(Head, IgnoredLabelsTeachNothing) {
  HeadInput head = input();
  head.labels.narrow(1, 3, 5).fill_(kIgnoredLabel);
  expect_equal_over_full_logits(head);
}

TEST_F(Head, AllIgnoredIsZeroAndNotANumberNowhere) {
  HeadInput head = input();
  head.labels.fill_(kIgnoredLabel);
  expect_equal_over_full_logits(head);
}

TEST_F(Head, LargeLogitsStayFinite) {
  const HeadInput head = input(/*spread=*/1000);
  ASSERT_GT(at::linear(head.x, head.weight).max().item<float>(), 1000);  // exp() overflows at 89
  expect_equal_over_full_logits(head, 1e-4);  // fp32 holds such logits to 2e-4
}

TEST_F(Head, AccumulatingAddsToTheGradient) {
  const HeadInput head = input();
  const at::Tensor once = at::empty({kVocab, kHidden});
  head_forward_backward(head, once, false);
  const at::Tensor twice = once.clone();
  head_forward_backward(head, twice, true);
  EXPECT_LT(relative_error(twice, 2 * once), 1e-6);
}

// Three pieces of the vocabulary, the last one short, each added over four chunks.
TEST_F(Head, Bf16GradientIsSummedInFp32PieceByPiece) {
  const std::int64_t vocab = 5000, hidden = 1024;
  const HeadInput head{.x = at::randn({1, 40, hidden}).to(at::kBFloat16),
                       .weight = (at::randn({vocab, hidden}) / 32).to(at::kBFloat16),
                       .labels = at::randint(vocab, {1, 40}),
                       .scale = 1.0 / 40,
                       .chunk_rows = 10};
  const Expected expected = over_full_logits(head);
  const at::Tensor dw = at::empty({vocab, hidden});
  const HeadResult found = head_forward_backward(head, dw, false);

  EXPECT_LT(relative_error(found.loss, expected.loss), 1e-3);
  EXPECT_EQ(found.dx.scalar_type(), at::kBFloat16);
  EXPECT_LT(relative_error(found.dx, expected.dx), 8e-3);
  EXPECT_LT(relative_error(dw, expected.dw), 8e-3);
}

TEST(HeadPieces, AGpuTakesFewAndAProcessorSuchAsItsCachesHold) {
  const at::Device gpu(at::kCUDA, 0);
  EXPECT_LT(128256 / head_piece_rows(gpu, 4096), 16);
  EXPECT_GT(128256 / head_piece_rows(at::Device(at::kCPU), 4096), 200);
  for (const std::int64_t hidden : {2560, 3584, 5120}) {
    EXPECT_EQ(head_piece_rows(gpu, hidden) % 64, 0) << hidden;  // 13107, 9362, 6553 fit
  }
  EXPECT_EQ(head_piece_rows(at::Device(at::kCPU), 1 << 22), 1);
}

TEST_F(Head, NothingIsReadBackToTheHost) {
  const HeadInput head = input();
  const at::Tensor dw = at::empty({kVocab, kHidden});
  const CallRecorder recorder;
  head_forward_backward(head, dw, false);
  ASSERT_GT(recorder.calls().size(), 20u);
  for (const Call& call : recorder.calls()) {
    EXPECT_NE(call.name, "aten::item");
    EXPECT_NE(call.name, "aten::nonzero");
    EXPECT_NE(call.name, "aten::masked_select");
  }
}

}  // namespace
}  // namespace ferry
