// A block of a model on a device, with the plan and the memory to run its tasks one by one: for
// measuring what they take.
#pragma once

#include "base/units.h"
#include "device/device.h"
#include "spec/model_spec.h"
#include "train/bench_plan.h"
#include "train/block_math.h"
#include "train/measure.h"
#include "train/places.h"
#include "train/step_numbers.h"
#include "train/stopwatch.h"

namespace ferry {

/// A block that the device or the budget has no room for.
struct NoRoom {
  Bytes need;
};

/// One step's numbers: tokens as a text has them, since an embedding that reads one row alone, and
/// adds all gradients to it, is not as fast as one that reads many. `documents`: every token is a
/// document of its own, else every row is one.
StepNumbers bench_numbers(const ModelSpec& model, const BatchShape& shape, bool documents);

/// A bench plan on the device, ready to run. The model and the request must outlive it.
struct BlockBench {
  /// Weights are small and token ids valid, so that nothing is slow or invalid by accident. Throws
  /// NoRoom when the values take more than the request's memory.
  BlockBench(const ModelSpec& model, const MeasureRequest& request, BlockId block,
             Bytes saved_bytes);

  Stopwatch::Work work(TaskId id) {
    return [this, id] { math.enqueue(id, numbers); };
  }

  Bytes bytes() const { return slots_end(*plan, BenchPlan::kDevice); }

  const BenchPlan made;
  const Plan* const plan;
  const Bytes saved;
  Places places;
  const Binding binding;
  BlockMath math;
  Device& device;
  const Stopwatch watch;
  const StepNumbers numbers;
};

/// What the block's forward may keep, whatever the documents: model/block.h says which are worst.
Bytes count_saved(BlockBench& bench, const ModelSpec& model, const MeasureRequest& request);

}  // namespace ferry
