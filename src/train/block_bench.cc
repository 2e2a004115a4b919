#include "train/block_bench.h"

#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <cstdint>
#include <random>

#include "device/tensor_views.h"

namespace ferry {
namespace {

/// Small weights and valid token ids, so that nothing is slow or invalid by accident.
void fill(const ModelSpec& model, const Plan& plan, const Binding& binding) {
  for (const InstanceId id : plan.instances.ids()) {
    const Value& value = plan.values[plan.instances[id].value];
    at::Tensor bytes = binding.bytes(id);
    bytes.zero_();
    if (value.kind == ValueKind::weight) {
      for (at::Tensor& weight : weight_views(model, plan, binding, value.block, id)) {
        weight.fill_(weight.dim() == 1 ? 1.0 : 0.01);
      }
    } else if (value.kind == ValueKind::activation ||
               value.kind == ValueKind::activation_gradient) {
      const auto type = plan.precision == Precision::bf16 ? at::kBFloat16 : at::kFloat;
      ferry::view(bytes, {},
                  {value.bytes.count / static_cast<std::int64_t>(c10::elementSize(type))}, type)
          .fill_(0.01);
    }
  }
}

const Plan* require_room(const Plan& plan, const MeasureRequest& request) {
  const Bytes need = slots_end(plan, BenchPlan::kDevice);
  if (need > request.memory) throw NoRoom{need};
  return &plan;
}

}  // namespace

StepNumbers bench_numbers(const ModelSpec& model, const MeasureRequest& request, bool documents) {
  const auto count = static_cast<std::size_t>(request.micro_batch_size) * request.sequence;
  StepNumbers numbers;
  Batch& batch = numbers.batches.emplace_back();
  std::mt19937 random(1);
  for (std::size_t i = 0; i < count; ++i) {
    batch.ids.push_back(static_cast<std::int64_t>(random()) % model.vocab);
  }
  batch.labels = batch.ids;
  for (std::size_t i = 0; documents && i < count; ++i) {
    batch.segments.push_back(static_cast<std::int32_t>(i) % request.sequence);
  }
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
      numbers(bench_numbers(model, request, /*documents=*/false)) {
  const c10::StreamGuard current(device.stream("compute"));
  fill(model, *plan, binding);
}

Bytes count_saved(BlockBench& bench, const ModelSpec& model, const MeasureRequest& request) {
  Bytes saved;
  for (const bool documents : {false, true}) {
    const StepNumbers numbers = bench_numbers(model, request, documents);
    const auto count = [&] {
      saved = std::max(saved, bench.math.saved_bytes(bench.made.forward, numbers));
    };
    bench.watch.run(count, 1);
  }
  return saved;
}

}  // namespace ferry
