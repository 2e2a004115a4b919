#include "train/measure.h"

#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>
#include <torch/version.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "device/device.h"
#include "device/device_event.h"
#include "device/tensor_views.h"
#include "train/block_math.h"
#include "train/driving_thread.h"
#include "train/host_math.h"
#include "train/places.h"
#include "train/update_rate.h"

namespace ferry {
namespace {

constexpr int kWarmUps = 2;
constexpr int kRounds = 5;
constexpr int kMicroBatches =
    3;  // the first sets the gradient sum, the others add, the last ends it
constexpr Micros kRoundLength{20'000};  // a round repeats a task until it takes about this long

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

/// A plan whose tasks are run one by one: every value has its own slot on one device, but what
/// forward keeps, one block at a time: `saved` says how much per block, 0 for nothing.
class BenchPlan {
 public:
  BenchPlan(const ModelSpec& model, const MeasureRequest& request, const std::vector<Bytes>& saved)
      : model_(model) {
    plan.strategy = "measure";
    plan.micro_batches = kMicroBatches;
    plan.micro_batch_size = request.micro_batch_size;
    plan.sequence = request.sequence;
    plan.precision = request.precision;
    plan.places = {{"device", PlaceKind::device, {}, {}}, {"host", PlaceKind::host, {}, {}}};
    plan.resources = {{"compute", ResourceKind::compute, 0, 0, {}, {}},
                      {"up", ResourceKind::copy, 0, 0, {}, {}}};
    const Bytes element{weight_element_bytes(request.precision)};
    boundary_ = activation_bytes(model, {request.micro_batch_size, request.sequence}, element);
    tokens_ =
        add({ValueKind::tokens, -1, 0, tokens_bytes(request.micro_batch_size, request.sequence)});
    loss_ = add({ValueKind::loss, -1, 0, 4_B});
    for (BlockId b = 0; b < static_cast<BlockId>(model.blocks.size()); ++b) add_block(b);
    for (std::size_t b = 0; b < saved.size(); ++b) add_saving(static_cast<BlockId>(b), saved[b]);
  }

  Plan plan;
  std::vector<TaskId> forward;                // per block; -1 for the head
  std::vector<std::vector<TaskId>> backward;  // per block: first, middle and last micro-batch
  // Per block, -1 where nothing is kept: a forward that keeps and the last micro-batch's backward.
  std::vector<TaskId> saving_forward, saved_backward;
  InstanceId any_weight = -1;  // for copies

 private:
  InstanceId add(Value value) {
    end_ = round_up(end_, 512_B);
    plan.values.push_back(value);
    plan.instances.push_back({static_cast<ValueId>(plan.values.size()) - 1, 0, end_, false});
    end_ += value.bytes;
    return static_cast<InstanceId>(plan.instances.size()) - 1;
  }

  TaskId add(Task task) {
    plan.tasks.push_back(std::move(task));
    return static_cast<TaskId>(plan.tasks.size()) - 1;
  }

  void add_block(BlockId b) {
    const BlockSpec& block = model_.blocks[static_cast<std::size_t>(b)];
    const bool head = block.kind == BlockKind::head, tied = head && model_.tied;
    const bool first = block.kind == BlockKind::embedding;
    plan.blocks.push_back({to_string(block.kind), 0, !tied, head, tied ? 0 : -1});
    const InstanceId input = first ? tokens_ : output_;
    const InstanceId input_gradient = first ? -1 : output_gradient_;
    if (!head) {
      output_ = add({ValueKind::activation, b + 1, 0, boundary_});
      output_gradient_ = add({ValueKind::activation_gradient, b + 1, 0, boundary_});
    }
    const BlockLayout own = layout_of(block);
    const InstanceId weight =
        tied ? embedding_weight_
             : add({ValueKind::weight, b, -1, weight_bytes(own, plan.precision)});
    if (first) embedding_weight_ = weight;
    any_weight = std::max(any_weight, weight);
    const InstanceId gradient =
        add({ValueKind::gradient, b, -1, gradient_bytes(gradient_layout_of(model_, block))});
    const InstanceId norm = add({ValueKind::norm, b, -1, 8_B});

    forward.push_back(head ? -1
                           : add(Task{.name = "F",
                                      .kind = TaskKind::forward,
                                      .resource = 0,
                                      .block = b,
                                      .micro_batch = 0,
                                      .reads = {weight, input},
                                      .writes = {output_},
                                      .after = {},
                                      .after_previous = {},
                                      .micros = {},
                                      .bytes = {},
                                      .workspace = {}}));
    backward.emplace_back();
    for (int m = 0; m < kMicroBatches; ++m) {
      Task task{.name = "B",
                .kind = TaskKind::backward,
                .resource = 0,
                .block = b,
                .micro_batch = 0,
                .reads = {weight, input},
                .writes = {gradient},
                .after = {},
                .after_previous = {},
                .micros = {},
                .bytes = {},
                .workspace = {}};
      task.reads.push_back(head ? tokens_ : output_gradient_);
      if (m > 0) task.reads.push_back(gradient);
      if (!first) task.writes.push_back(input_gradient);
      if (head) task.writes.push_back(loss_);
      if (m == kMicroBatches - 1 && !tied) task.writes.push_back(norm);
      backward.back().push_back(add(std::move(task)));
    }
  }

  void add_saving(BlockId b, Bytes bytes) {
    const auto index = static_cast<std::size_t>(b);
    saving_forward.push_back(-1);
    saved_backward.push_back(-1);
    if (bytes == 0_B) return;
    const Bytes before = end_;
    const InstanceId kept = add({ValueKind::saved, b, 0, bytes});
    end_ = before;
    Task keeps = plan.tasks[static_cast<std::size_t>(forward[index])];
    keeps.writes.push_back(kept);
    saving_forward.back() = add(std::move(keeps));
    Task uses = plan.tasks[static_cast<std::size_t>(backward[index].back())];
    uses.reads.push_back(kept);
    saved_backward.back() = add(std::move(uses));
  }

  const ModelSpec& model_;
  Bytes boundary_;
  Bytes end_;
  InstanceId tokens_ = -1, loss_ = -1, output_ = -1, output_gradient_ = -1, embedding_weight_ = -1;
};

/// Times and weighs what is enqueued on one stream.
class Stopwatch {
 public:
  Stopwatch(Device& device, c10::Stream stream) : device_(device), stream_(stream) {}

  /// The time until the device has done `work` so often.
  Micros run(const std::function<void()>& work, int repeats) const {
    const auto start = std::chrono::steady_clock::now();
    on_driving_thread(device_.simulated(), [&] {
      const c10::StreamGuard current(stream_);
      for (int i = 0; i < repeats; ++i) work();
    });
    device_.synchronize();
    return {std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
                .count()};
  }

  /// The time of one `work` when several follow each other: the median over rounds.
  Micros time(const std::function<void()>& work) const {
    for (int i = 0; i < kWarmUps; ++i) run(work, 1);
    const Micros once = run(work, 1);
    const int repeats =
        static_cast<int>(std::clamp(kRoundLength.count / std::max(once.count, 1.0), 1.0, 200.0));
    std::vector<double> rounds;
    for (int i = 0; i < kRounds; ++i) rounds.push_back(run(work, repeats).count / repeats);
    std::ranges::sort(rounds);
    return {rounds[kRounds / 2]};
  }

  /// What `work` allocates at most beside what is alive.
  Bytes weigh(const std::function<void()>& work) const {
    device_.reset_peak();
    const Bytes before = device_.memory_use().live;
    run(work, 1);
    return device_.memory_use().peak - before;
  }

 private:
  Device& device_;
  const c10::Stream stream_;
};

/// What a task costs beside its kernels: the time of one hop when tiny tasks of two streams wait
/// for each other in turn, as a copy and the computation that needs it do.
Micros hop_time(Device& device) {
  constexpr int kRoundTrips = 100;
  const c10::Stream there = device.stream("compute"), back = device.stream("weights_up");
  const at::Tensor bytes = device.slab(1024_B);
  const at::Tensor first = bytes.narrow(0, 0, 512), second = bytes.narrow(0, 512, 512);
  DeviceEvent done(device), returned(device);
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    on_driving_thread(device.simulated(), [&] {
      for (int i = 0; i < kRoundTrips; ++i) {
        {
          const c10::StreamGuard current(there);
          first.zero_();
          done.record(there);
          done.block(back);
        }
        const c10::StreamGuard current(back);
        second.copy_(first);
        returned.record(back);
        returned.block(there);
      }
    });
    device.synchronize();
    const std::chrono::duration<double, std::micro> taken =
        std::chrono::steady_clock::now() - start;
    rounds.push_back(taken.count() / (2 * kRoundTrips));
  }
  std::ranges::sort(rounds);
  return {rounds[kRounds / 2]};
}

/// Small weights and valid token ids, so that nothing is slow or invalid by accident.
void fill(const ModelSpec& model, const Plan& plan, const Binding& binding) {
  for (InstanceId id = 0; id < static_cast<InstanceId>(plan.instances.size()); ++id) {
    const Value& value =
        plan.values[static_cast<std::size_t>(plan.instances[static_cast<std::size_t>(id)].value)];
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
  Bench(const ModelSpec& model, const MeasureRequest& request, const std::vector<Bytes>& saved)
      : made(model, request, saved),
        plan(&made.plan),
        places({&plan, 1}, {&request.device, 1}, 1),
        binding(*plan, places),
        math(model, *plan, binding),
        device(*places.at(0).device),
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
std::vector<Bytes> count_saved(const ModelSpec& model, const MeasureRequest& request) {
  Bench bench(model, request, {});
  std::vector<Bytes> saved(model.blocks.size());
  for (std::size_t b = 0; b < model.blocks.size(); ++b) {
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

void measure_forward(Bench& bench, std::size_t b, const StepNumbers& numbers, BlockProfile& costs) {
  const auto forward = [&] { bench.math.enqueue(bench.made.forward[b], numbers); };
  costs.forward = bench.watch.time(forward);
  costs.forward_workspace = bench.watch.weigh(forward);
}

void measure_backward(Bench& bench, std::size_t b, const StepNumbers& numbers,
                      BlockProfile& costs) {
  const auto task = [&](TaskId id) { return [&, id] { bench.math.enqueue(id, numbers); }; };
  const std::vector<TaskId>& backward = bench.made.backward[b];
  const Micros set = bench.watch.time(task(backward.front()));
  const Micros add = bench.watch.time(task(backward.back()));
  costs.backward = (set + add) * 0.5;
  for (const TaskId id : backward) {
    costs.backward_workspace = std::max(costs.backward_workspace, bench.watch.weigh(task(id)));
  }
  if (bench.made.saving_forward[b] < 0) return;

  // Keeping is a copy per product, little beside it: such a forward takes a forward's time.
  const auto keep = task(bench.made.saving_forward[b]), use = task(bench.made.saved_backward[b]);
  costs.saving_workspace = bench.watch.weigh(keep);
  // It does less than backward: whatever else is measured is noise.
  costs.saved_backward = std::min(bench.watch.time(use), costs.backward);
  costs.backward_workspace = std::max(costs.backward_workspace, bench.watch.weigh(use));
}

Profile measure_here(const MeasureRequest& request, bool saving) {
  const ModelSpec model = one_layer(request.model);
  const std::vector<Bytes> saved =
      saving ? count_saved(model, request) : std::vector<Bytes>(model.blocks.size());
  Bench bench(model, request, saved);
  const StepNumbers numbers = bench_numbers(request, /*documents=*/false);

  Profile profile;
  profile.name = request.device;
  profile.micro_batch_size = request.micro_batch_size;
  profile.sequence = request.sequence;
  profile.measured = true;
  for (std::size_t b = 0; b < model.blocks.size(); ++b) {
    const BlockSpec& block = model.blocks[b];
    BlockProfile costs;
    costs.key = similarity_key(model, block);
    costs.weights = weight_bytes(layout_of(block), request.precision);
    costs.gradients = gradient_bytes(gradient_layout_of(model, block));
    costs.parameters = block.numel();
    costs.saved = saved[b];
    if (bench.made.forward[b] >= 0) {
      measure_forward(bench, b, numbers, costs);
      costs.activation = costs.activation_gradient =
          activation_bytes(model, {request.micro_batch_size, request.sequence},
                           Bytes{weight_element_bytes(request.precision)});
    }
    measure_backward(bench, b, numbers, costs);
    profile.blocks.push_back(costs);
  }
  for (const BlockSpec& block : request.model.blocks) {
    const std::string key = similarity_key(request.model, block);
    const auto entry = std::ranges::find(profile.blocks, key, &BlockProfile::key);
    profile.chain.push_back(static_cast<int>(entry - profile.blocks.begin()));
  }
  profile.update_rate = measure_update_rate(request.precision, request.update_threads);
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

}  // namespace ferry
