#include "train/measure.h"

#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>
#include <torch/version.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "base/error.h"
#include "device/device.h"
#include "device/tensor_views.h"
#include "plan/task_signature.h"
#include "train/block_math.h"
#include "train/host_math.h"
#include "train/places.h"
#include "train/stopwatch.h"
#include "train/update_rate.h"

namespace ferry {
namespace {

constexpr int kMicroBatches =
    3;  // the first sets the gradient sum, the others add, the last ends it

/// The model with one layer: every distinct block once.
ModelSpec one_layer(const ModelSpec& model) {
  ModelSpec small = model;
  small.layers = 1;
  small.blocks.clear();
  small.edges.clear();
  for (const BlockSpec& block : model.blocks) {
    if (block.layer <= 0) small.blocks.push_back(block);
  }
  for (int i = 1; i < static_cast<int>(small.blocks.size()); ++i) small.edges.push_back({i - 1, i});
  return small;
}

/// A plan whose tasks are run one by one: every value has its own slot on one device. `saved`: what
/// each block's forward keeps, 0 for nothing.
class BenchPlan {
 public:
  BenchPlan(const ModelSpec& model, const MeasureRequest& request,
            const IdVector<BlockId, Bytes>& saved)
      : model_(model) {
    plan.strategy = "measure";
    plan.micro_batches = kMicroBatches;
    plan.micro_batch_size = request.micro_batch_size;
    plan.sequence = request.sequence;
    plan.precision = request.precision;
    plan.places = {{"device", PlaceKind::device, {}, {}}, {"host", PlaceKind::host, {}, {}}};
    plan.resources = {{"compute", ResourceKind::compute, kDevice, 0, {}, {}},
                      {"up", ResourceKind::copy, kDevice, 0, {}, {}}};
    const Bytes element{weight_element_bytes(request.precision)};
    boundary_ = activation_bytes(model, {request.micro_batch_size, request.sequence}, element);
    add({ValueKind::tokens, {}, 0, tokens_bytes(request.micro_batch_size, request.sequence)});
    add({ValueKind::loss, {}, 0, 4_B});
    for (const BlockId b : model.blocks.ids()) {
      add_block(b);
      if (saved.has(b) && saved[b] > 0_B) add({ValueKind::saved, b, 0, saved[b]});
    }
    const TaskSignatures signatures(plan);
    for (const BlockId b : model.blocks.ids()) {
      add_tasks(b, saved.has(b) && saved[b] > 0_B, signatures);
    }
  }

  static constexpr PlaceId kDevice{0};
  static constexpr ResourceId kCompute{0};

  Plan plan;
  IdVector<BlockId, TaskId> forward;                // none for the head
  IdVector<BlockId, std::vector<TaskId>> backward;  // first, middle and last micro-batch
  // None where nothing is kept: a forward that keeps and the last micro-batch's backward.
  IdVector<BlockId, TaskId> saving_forward, saved_backward;

 private:
  void add(Value value) {
    end_ = round_up(end_, 512_B);
    places_[{value.kind, value.block}] =
        plan.instances.add({plan.values.add(value), kDevice, end_, false});
    end_ += value.bytes;
  }

  void add_block(BlockId b) {
    const BlockSpec& block = model_.blocks[b];
    const bool head = block.kind == BlockKind::head, tied = head && model_.tied;
    plan.blocks.push_back({to_string(block.kind), 0, !tied, head, tied ? BlockId(0) : BlockId()});
    if (block.kind != BlockKind::embedding) {
      add({ValueKind::activation, b, 0, boundary_});
      add({ValueKind::activation_gradient, b, 0, boundary_});
    }
    if (!tied) {
      add({ValueKind::weight, b, -1, weight_bytes(layout_of(block), plan.precision)});
      add({ValueKind::norm, b, -1, 8_B});
    }
    add({ValueKind::gradient, b, -1, gradient_bytes(gradient_layout_of(model_, block))});
  }

  void add_tasks(BlockId b, bool keeps, const TaskSignatures& signatures) {
    const auto add_task = [&](TaskKind kind, int m, bool keeping) {
      Task task;
      task.name = kind == TaskKind::forward ? "F" : "B";
      task.kind = kind;
      task.resource = kCompute;
      task.block = b;
      task.micro_batch = m;
      signatures.write(task, keeping, [&](const Access& access, bool) {
        return places_.at({access.value.kind, access.value.block});
      });
      task.micro_batch = 0;  // all run on the one batch
      return plan.tasks.add(std::move(task));
    };
    const bool head = model_.blocks[b].kind == BlockKind::head;
    forward.push_back(head ? TaskId() : add_task(TaskKind::forward, 0, false));
    backward.emplace_back();
    for (int m = 0; m < kMicroBatches; ++m) {
      backward.back().push_back(add_task(TaskKind::backward, m, false));
    }
    saving_forward.push_back(keeps ? add_task(TaskKind::forward, 0, true) : TaskId());
    saved_backward.push_back(keeps ? add_task(TaskKind::backward, kMicroBatches - 1, true)
                                   : TaskId());
  }

  const ModelSpec& model_;
  Bytes boundary_;
  Bytes end_;
  std::map<std::pair<ValueKind, BlockId>, InstanceId> places_;
};

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

/// One step's numbers. `documents`: every token is a document of its own, else every row is one.
StepNumbers bench_numbers(const MeasureRequest& request, bool documents) {
  const auto count = static_cast<std::size_t>(request.micro_batch_size * request.sequence);
  StepNumbers numbers;
  Batch& batch = numbers.batches.emplace_back();
  batch.ids.assign(count, 0);
  batch.labels.assign(count, 0);
  for (std::size_t i = 0; documents && i < count; ++i) {
    batch.segments.push_back(static_cast<std::int32_t>(i) % request.sequence);
  }
  numbers.loss_scale = 1.0 / static_cast<double>(count);
  return numbers;
}

/// A bench plan on the device, ready to run.
struct Bench {
  Bench(const ModelSpec& model, const MeasureRequest& request,
        const IdVector<BlockId, Bytes>& saved)
      : made(model, request, saved),
        plan(&made.plan),
        places({&plan, 1}, {&request.device, 1}, 1),
        binding(*plan, places),
        math(model, *plan, binding),
        device(*places[BenchPlan::kDevice].device),
        watch(device, device.stream("compute")) {
    const c10::StreamGuard current(device.stream("compute"));
    fill(model, *plan, binding);
  }

  const BenchPlan made;
  const Plan* const plan;
  Places places;
  const Binding binding;
  BlockMath math;
  Device& device;
  const Stopwatch watch;
};

/// What each block's forward may keep, whatever the documents: model/block.h says which are worst.
IdVector<BlockId, Bytes> count_saved(const ModelSpec& model, const MeasureRequest& request) {
  Bench bench(model, request, {});
  IdVector<BlockId, Bytes> saved(model.blocks.size());
  for (const BlockId b : model.blocks.ids()) {
    if (!can_save(model.blocks[b])) continue;
    for (const bool documents : {false, true}) {
      const StepNumbers numbers = bench_numbers(request, documents);
      const auto count = [&] {
        saved[b] = std::max(saved[b], bench.math.saved_bytes(bench.made.forward[b], numbers));
      };
      bench.watch.run(count, 1);
    }
  }
  return saved;
}

/// The tasks of one block that are timed, by their places in the list of works.
struct TimedTasks {
  int forward = -1;  // -1: there is none
  int first_backward = -1, last_backward = -1;
  int saved_backward = -1;
};

TimedTasks list_works(Bench& bench, BlockId b, const StepNumbers& numbers,
                      std::vector<Stopwatch::Work>& works) {
  const auto list = [&](TaskId id) {
    if (!id.valid()) return -1;
    works.push_back([&bench, &numbers, id] { bench.math.enqueue(id, numbers); });
    return static_cast<int>(works.size()) - 1;
  };
  const TaskId saving = bench.made.saving_forward[b];
  // A backward goes on from what forward kept, however often.
  if (saving.valid()) bench.watch.run([&] { bench.math.enqueue(saving, numbers); }, 1);
  return {list(bench.made.forward[b]), list(bench.made.backward[b].front()),
          list(bench.made.backward[b].back()), list(bench.made.saved_backward[b])};
}

/// Keeping is a copy per product, little beside it: such a forward takes a forward's time.
void take_times(const TimedTasks& tasks, const std::vector<Stopwatch::Timing>& timings,
                BlockProfile& costs) {
  const auto time = [&](int at) { return at < 0 ? Micros{} : timings[at].device; };
  costs.forward = time(tasks.forward);
  costs.backward = (time(tasks.first_backward) + time(tasks.last_backward)) * 0.5;
  // It does less than backward: whatever else is measured is noise.
  costs.saved_backward = std::min(time(tasks.saved_backward), costs.backward);
}

void weigh(Bench& bench, BlockId b, const StepNumbers& numbers, BlockProfile& costs) {
  const auto peak = [&](TaskId id) {
    return !id.valid() ? Bytes{} : bench.watch.weigh([&] { bench.math.enqueue(id, numbers); });
  };
  costs.forward_workspace = peak(bench.made.forward[b]);
  costs.saving_workspace = peak(bench.made.saving_forward[b]);
  costs.backward_workspace = peak(bench.made.saved_backward[b]);
  for (const TaskId id : bench.made.backward[b]) {
    costs.backward_workspace = std::max(costs.backward_workspace, peak(id));
  }
}

/// Busy while a device runs forward and backward of the chain.
double compute_cores(const std::vector<int>& chain, const IdVector<BlockId, TimedTasks>& tasks,
                     const std::vector<Stopwatch::Timing>& timings) {
  Micros cores, device;
  for (const int at : chain) {
    const TimedTasks& block = tasks[BlockId(at)];
    for (const int task : {block.forward, block.last_backward}) {
      if (task < 0) continue;
      cores += timings[task].cores;
      device += timings[task].device;
    }
  }
  return cores.count / device.count;
}

/// Of the size that updates on the device mostly have: caches make small ones faster.
std::int64_t update_size(const Profile& profile) {
  constexpr std::int64_t kUnit = 256, kFewest = 1 << 14, kMost = 1 << 20;
  const std::int64_t largest =
      std::ranges::max(profile.blocks, {}, &BlockProfile::parameters).parameters;
  return std::clamp((largest + kUnit - 1) / kUnit * kUnit, kFewest, kMost);
}

Profile measure_here(const MeasureRequest& request, bool saving) {
  const ModelSpec model = one_layer(request.model);
  const IdVector<BlockId, Bytes> saved =
      saving ? count_saved(model, request) : IdVector<BlockId, Bytes>(model.blocks.size());
  Bench bench(model, request, saved);
  const StepNumbers numbers = bench_numbers(request, /*documents=*/false);

  Profile profile;
  profile.name = request.device;
  profile.micro_batch_size = request.micro_batch_size;
  profile.sequence = request.sequence;
  profile.measured = true;
  std::vector<Stopwatch::Work> works;
  IdVector<BlockId, TimedTasks> tasks;
  for (const BlockId b : model.blocks.ids()) {
    tasks.push_back(list_works(bench, b, numbers, works));
  }
  const std::vector<Stopwatch::Timing> timings = bench.watch.time(works);
  for (const BlockId b : model.blocks.ids()) {
    const BlockSpec& block = model.blocks[b];
    BlockProfile costs;
    costs.key = similarity_key(model, block);
    costs.weights = weight_bytes(layout_of(block), request.precision);
    costs.gradients = gradient_bytes(gradient_layout_of(model, block));
    costs.parameters = block.numel();
    costs.saved = saved[b];
    if (bench.made.forward[b].valid()) {
      costs.activation = costs.activation_gradient =
          activation_bytes(model, {request.micro_batch_size, request.sequence},
                           Bytes{weight_element_bytes(request.precision)});
    }
    take_times(tasks[b], timings, costs);
    weigh(bench, b, numbers, costs);
    profile.blocks.push_back(costs);
  }
  for (const BlockSpec& block : request.model.blocks) {
    const std::string key = similarity_key(request.model, block);
    const auto entry = std::ranges::find(profile.blocks, key, &BlockProfile::key);
    profile.chain.push_back(static_cast<int>(entry - profile.blocks.begin()));
  }
  profile.update_rate = measure_update_rate(request.precision, request.update_threads);
  profile.device_update_rate =
      measure_device_update_rate(bench.device, request.precision, update_size(profile));
  profile.compute_cores = compute_cores(profile.chain, tasks, timings);
  profile.task_overhead = profile.copy_overhead = hop_time(bench.device);
  return profile;
}

}  // namespace

Profile measure_profile(const MeasureRequest& request) {
  try {
    try {
      return measure_here(request, /*saving=*/true);
    } catch (const c10::OutOfMemoryError&) {
      return measure_here(request, /*saving=*/false);  // a device that small recomputes
    }
  } catch (const c10::Error& error) {
    throw ResourceError("measuring the model's blocks on " + request.device + ": " +
                        error.what_without_backtrace());
  }
}

std::string torch_version() { return TORCH_VERSION; }

std::string cpu_capability() { return at::get_cpu_capability(); }

}  // namespace ferry
