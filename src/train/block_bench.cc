#include "train/block_bench.h"

#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <cstdint>
#include <random>

#include "device/tensor_views.h"

namespace ferry {
namespace {

/// Small random numbers: a GPU multiplies numbers that are all alike up to a seventh faster. Some
/// come from the host, the others are copies of them on the device, without memory of their own.
void fill_randomly(const at::Tensor& tensor) {
  constexpr std::int64_t kDrawn = 1 << 16;
  constexpr double kScale = 0.02;
  static const at::Tensor drawn = at::randn({kDrawn}, at::detail::createCPUGenerator(1)) * kScale;
  const at::Tensor flat = tensor.view(-1);
  const std::int64_t all = flat.numel();
  std::int64_t filled = std::min(all, kDrawn);
  flat.narrow(0, 0, filled).copy_(drawn.narrow(0, 0, filled).to(flat.scalar_type()));
  while (filled < all) {
    const std::int64_t next = std::min(filled, all - filled);
    flat.narrow(0, filled, next).copy_(flat.narrow(0, 0, next));
    filled += next;
  }
}

/// Values and token ids as training has them, so that nothing is slow or fast by accident.
void fill(const ModelSpec& model, const Plan& plan, const Binding& binding) {
  for (const InstanceId id : plan.instances.ids()) {
    const Value& value = plan.values[plan.instances[id].value];
    at::Tensor bytes = binding.bytes(id);
    bytes.zero_();
    if (value.kind == ValueKind::weight) {
      for (at::Tensor& weight : weight_views(model, plan, binding, value.block, id)) {
        if (weight.dim() == 1) {
          weight.fill_(1.0);
        } else {
          fill_randomly(weight);
        }
      }
    } else if (value.kind == ValueKind::activation ||
               value.kind == ValueKind::activation_gradient) {
      const auto type = plan.precision == Precision::bf16 ? at::kBFloat16 : at::kFloat;
      const auto element = static_cast<std::int64_t>(c10::elementSize(type));
      fill_randomly(ferry::view(bytes, {}, {value.bytes.count / element}, type));
    }
  }
}

const Plan* require_room(const Plan& plan, const MeasureRequest& request) {
  const Bytes need = slots_end(plan, BenchPlan::kDevice);
  if (need > request.memory) throw NoRoom{need};
  return &plan;
}

}  // namespace

StepNumbers bench_numbers(const ModelSpec& model, const BatchShape& shape, bool documents) {
  const auto count = static_cast<std::size_t>(shape.tokens());
  StepNumbers numbers;
  Batch& batch = numbers.batches.emplace_back();
  std::mt19937 random(1);
  for (std::size_t i = 0; i < count; ++i) {
    batch.ids.push_back(static_cast<std::int64_t>(random()) % model.vocab);
  }
  batch.labels = batch.ids;
  if (documents) batch.documents.assign(count, 1);  // of one token each
  numbers.loss_scale = 1.0 / static_cast<double>(count);
  return numbers;
}

BlockBench::BlockBench(const ModelSpec& model, const MeasureRequest& request, BlockId block,
                       Bytes saved_bytes)
    : made(model, request, block, saved_bytes),
      plan(require_room(made.plan, request)),
      saved(saved_bytes),
      places({&plan, 1}, {&request.device, 1}, Machine(), nobody(), {}, request.kernel_file),
      binding(*plan, places),
      math(model, *plan, binding),
      device(*places[BenchPlan::kDevice].device),
      watch(device, device.stream("compute")),
      numbers(
          bench_numbers(model, {request.micro_batch_size, request.sequence}, /*documents=*/false)) {
  const c10::StreamGuard current(device.stream("compute"));
  fill(model, *plan, binding);
}

Bytes count_saved(BlockBench& bench, const ModelSpec& model, const MeasureRequest& request) {
  Bytes saved;
  for (const bool documents : {false, true}) {
    const StepNumbers numbers =
        bench_numbers(model, {request.micro_batch_size, request.sequence}, documents);
    const auto count = [&] {
      saved = std::max(saved, bench.math.saved_bytes(bench.made.forward, numbers));
    };
    bench.watch.run(count, 1);
  }
  return saved;
}

}  // namespace ferry
