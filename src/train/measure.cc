#include "train/measure.h"

#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>
#include <torch/version.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/steady_time.h"
#include "device/device.h"
#include "train/block_bench.h"
#include "train/stopwatch.h"
#include "train/update_rate.h"

namespace ferry {
namespace {

constexpr int kFirstRuns = 12;  // forwards' worth of a block's first runs, about
/// Weights and gradients of an embedding or a head that is measured as a whole. A part of a larger
/// one has half of that, and as much again gives what grows with the rows.
constexpr Bytes kLargestTable = 256_MiB;
/// Blocks are timed in turns while together they take no more.
constexpr Bytes kTimedTogether = 1_GiB;

constexpr Bytes kLargestCache = 128_MiB;  // of a processor, about, or a GPU

constexpr Micros kLeastPerBlock{2e6};

/// A block that would take longer than there is time.
struct TooSlow {
  Micros expected;
};

/// The time that measuring may take, from now on.
class TimeLimit {
 public:
  explicit TimeLimit(Micros longest) : longest_(longest) {}

  Micros left() const { return longest_ - since(start_); }

  /// Throws TooSlow when so much more would be too much.
  void require(Micros expected) const {
    if (expected > left()) throw TooSlow{std::max(expected, longest_)};
  }

 private:
  const Micros longest_;
  const SteadyTime start_ = std::chrono::steady_clock::now();
};

/// The model with one layer, so every distinct block once, and so many rows of the vocabulary.
ModelSpec one_layer(const ModelSpec& model, std::int64_t vocab) {
  ModelSpec small = model;
  small.layers = 1;
  small.vocab = vocab;
  if (small.padding) small.padding = std::min(*small.padding, vocab - 1);
  build_blocks(small);
  return small;
}

/// The block of one_layer() that costs as much as `block`.
BlockId counterpart(const ModelSpec& small, const BlockSpec& block) {
  for (const BlockId b : small.blocks.ids()) {
    if (small.blocks[b].kind == block.kind) return b;
  }
  FERRY_UNREACHABLE("a layer has every kind of block");
}

/// What was seen of one task, and of all tasks of a block; of a task that there is not, zeros.
struct Seen {
  Stopwatch::Timing timing;
  Bytes peak;
};
struct BlockRuns {
  Seen forward, first_backward, last_backward, saving_forward, saved_backward;
};

/// The tasks whose times count.
std::vector<std::pair<TaskId, Seen BlockRuns::*>> timed_tasks(const BenchPlan& made) {
  std::vector<std::pair<TaskId, Seen BlockRuns::*>> tasks = {
      {made.first_backward, &BlockRuns::first_backward},
      {made.last_backward, &BlockRuns::last_backward}};
  if (made.forward.valid()) tasks.emplace_back(made.forward, &BlockRuns::forward);
  if (made.saved_backward.valid()) {
    tasks.emplace_back(made.saving_forward, &BlockRuns::saving_forward);
    tasks.emplace_back(made.saved_backward, &BlockRuns::saved_backward);
  }
  return tasks;
}

/// Every task once.
BlockRuns run_once(BlockBench& bench, const TimeLimit& limit) {
  BlockRuns runs;
  const auto see = [&](TaskId id, Seen& seen) {
    if (!id.valid()) return;
    limit.require({});
    const auto [timing, peak] = bench.watch.weigh(bench.work(id));
    seen = {timing, peak};
  };
  see(bench.made.forward, runs.forward);
  limit.require(runs.forward.timing.device * (kFirstRuns - 1));
  see(bench.made.saving_forward, runs.saving_forward);  // before a backward that goes on from it
  see(bench.made.saved_backward, runs.saved_backward);
  see(bench.made.first_backward, runs.first_backward);
  see(bench.made.last_backward, runs.last_backward);
  return runs;
}

/// A block on the device, whose tasks ran once.
struct Measuring {
  std::size_t place;  // in what was asked for
  BlockId block;      // of `model`
  std::unique_ptr<ModelSpec> model;
  std::unique_ptr<BlockBench> bench;
  BlockRuns runs;
};

/// A bench whose block keeps what it can, or nothing where room is short.
void run_first(const MeasureRequest& request, const TimeLimit& limit, Measuring& measuring) {
  const ModelSpec& model = *measuring.model;
  const auto run = [&](Bytes saved) {
    measuring.bench = std::make_unique<BlockBench>(model, request, measuring.block, saved);
    measuring.runs = run_once(*measuring.bench, limit);
  };
  if (can_save(model.blocks[measuring.block])) {
    try {
      measuring.bench = std::make_unique<BlockBench>(model, request, measuring.block, 0_B);
      const Bytes saved = count_saved(*measuring.bench, model, request);
      measuring.bench.reset();  // both at once may have no room
      return run(saved);
    } catch (const NoRoom&) {
    } catch (const c10::OutOfMemoryError&) {
    }
    measuring.bench.reset();
  }
  run(0_B);
}

/// The rows of the vocabulary to measure: all, or the first of two parts. Parts are whole 128s, as
/// vocabularies are: an H100's products took four to six times as long with 6,553 rows.
std::int64_t measured_rows(const ModelSpec& model, const BlockSpec& block) {
  const bool table = block.kind == BlockKind::embedding || block.kind == BlockKind::head;
  const Bytes row{model.hidden * (4 + 4)};  // weight and gradient
  if (!table || model.vocab * row <= kLargestTable) return model.vocab;
  constexpr std::int64_t kWhole = 256;  // so that half of them are whole 128s
  return std::max(kWhole, kLargestTable.count / 2 / row.count / kWhole * kWhole);
}

Bytes backward_peak(const BlockRuns& runs) {
  return std::max(runs.first_backward.peak, runs.last_backward.peak);
}

/// By runs that are timed alike. A backward that finds what was kept does less than one that makes
/// it: whatever else is measured is noise.
PassTimes times_of(const BlockRuns& runs, Micros Stopwatch::Timing::*when) {
  const auto time = [&](const Seen& seen) { return seen.timing.*when; };
  const Micros backward = (time(runs.first_backward) + time(runs.last_backward)) * 0.5;
  return {time(runs.forward), backward, time(runs.saving_forward),
          std::min(time(runs.saved_backward), backward)};
}

PassTimes shorter(const PassTimes& one, const PassTimes& other) {
  return {std::min(one.forward, other.forward), std::min(one.backward, other.backward),
          std::min(one.saving_forward, other.saving_forward),
          std::min(one.saved_backward, other.saved_backward)};
}

BlockProfile costs_of(const Measuring& measuring) {
  const BlockRuns& runs = measuring.runs;
  BlockProfile costs;
  costs.saved = measuring.bench->saved;
  const PassTimes times = times_of(runs, &Stopwatch::Timing::device);
  costs.forward = times.forward;
  costs.backward = times.backward;
  costs.saving_forward = times.saving_forward;
  costs.saved_backward = times.saved_backward;
  costs.forward_workspace = runs.forward.peak;
  costs.saving_workspace = runs.saving_forward.peak;
  costs.backward_workspace = backward_peak(runs);
  costs.saved_backward_workspace = runs.saved_backward.peak;
  return costs;
}

/// From two parts of the rows to all of them: bytes in a straight line; times as the rows, but of
/// an embedding's forward, which looks few rows up.
void continue_to(std::int64_t all, const Measuring& part, const MeasureRequest& request,
                 MeasuredBlock& result) {
  const std::int64_t rows = part.model->vocab, fewer = rows / 2;
  Measuring half{.place = part.place,
                 .block = part.block,
                 .model = std::make_unique<ModelSpec>(one_layer(request.model, fewer)),
                 .bench = nullptr,
                 .runs = {}};
  run_first(request, TimeLimit(Stopwatch::kUnlimited), half);
  const BlockProfile less = costs_of(half);
  const auto line = [&](Bytes& bytes, Bytes before) {
    const Bytes gained = std::max(bytes - before, 0_B);
    bytes += Bytes{(gained.count * (all - rows) + rows - fewer - 1) / (rows - fewer)};
  };
  BlockProfile& costs = result.costs;
  line(costs.forward_workspace, less.forward_workspace);
  line(costs.backward_workspace, less.backward_workspace);
  const double factor = static_cast<double>(all) / static_cast<double>(rows);
  const bool looks_up = part.model->blocks[part.block].kind == BlockKind::embedding;
  for (Micros* each : {&costs.backward, &result.again.backward}) *each = *each * factor;
  for (Micros* each : {&costs.forward, &result.again.forward}) {
    if (!looks_up) *each = *each * factor;
  }
  result.remark = "measured on " + std::to_string(rows) + " of its " + std::to_string(all) +
                  " rows, and continued";
}

/// Measures the blocks of one request; those that are quick take turns at the end.
class BlockMeasurements {
 public:
  BlockMeasurements(const MeasureRequest& request, std::span<const BlockId> blocks,
                    PhaseListener& listener)
      : request_(request), blocks_(blocks), listener_(listener), results_(blocks.size()) {}

  std::vector<MeasuredBlock> run() {
    Progress progress{"measuring", 0, std::ssize(blocks_), "blocks"};
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      progress.done = static_cast<std::ptrdiff_t>(i);
      progress.part = similarity_key(request_.model, request_.model.blocks[blocks_[i]]);
      listener_.progress(progress);
      begin(i);
    }
    progress.part = "all in turns";
    listener_.progress(progress);
    time_together();
    progress.done = progress.total;
    progress.part.clear();
    listener_.progress(progress);
    return std::move(results_);
  }

 private:
  void refuse(std::size_t place, const std::string& why) {
    results_[place].measured = false;
    results_[place].remark = why;
  }

  /// What the first runs take by the rate of products; 0: unknown.
  Micros expected(const Measuring& measuring) const {
    if (request_.flops <= 0) return {};
    const BatchShape shape{request_.micro_batch_size, request_.sequence};
    const BlockSpec& block = measuring.model->blocks[measuring.block];
    return from_seconds(kFirstRuns * forward_flops(*measuring.model, block, shape) /
                        request_.flops);
  }

  void begin(std::size_t place) {
    const BlockSpec& block = request_.model.blocks[blocks_[place]];
    const std::int64_t rows = measured_rows(request_.model, block);
    Measuring measuring{.place = place,
                        .block = {},
                        .model = std::make_unique<ModelSpec>(one_layer(request_.model, rows)),
                        .bench = nullptr,
                        .runs = {}};
    measuring.block = counterpart(*measuring.model, block);
    // Half of what is left: one that is slow in an unforeseen way leaves time for the others.
    const TimeLimit limit(std::max(limit_.left() * 0.5, kLeastPerBlock));
    try {
      limit.require(expected(measuring));
      run_beside_others(measuring, limit);
    } catch (const TooSlow& slow) {
      return refuse(place, "measuring it would take about " + to_string(slow.expected));
    } catch (const NoRoom& lacking) {
      return refuse(place, "it needs " + to_string(lacking.need) + ", and there are " +
                               to_string(request_.memory));
    } catch (const c10::OutOfMemoryError&) {
      return refuse(place, "its kernels need more than " + to_string(request_.memory));
    }
    together_ += measuring.bench->bytes();
    measuring_.push_back(std::move(measuring));
    if (together_ > kTimedTogether) time_together();
  }

  /// Those that wait on the device for their turns make room when that is short.
  void run_beside_others(Measuring& measuring, const TimeLimit& limit) {
    try {
      run_first(request_, limit, measuring);
    } catch (const c10::OutOfMemoryError&) {
      if (measuring_.empty()) throw;
      measuring.bench.reset();
      time_together();
      run_first(request_, limit, measuring);
    }
  }

  /// Of other blocks' bytes, which a step touches between two runs of one, those that matter and
  /// have room: kernels that find their weights in a cache are up to a third faster.
  Bytes bytes_between_runs() const { return std::min(kLargestCache, request_.memory - together_); }

  static Stopwatch::Work touching(const Device& device, Bytes others) {
    if (others <= 0_B) return {};
    return [slab = device.slab(others)] { slab.fill_(1); };
  }

  /// Times the blocks that are on the device in turns, as far as their part of the time allows, and
  /// takes them off it.
  void time_together() {
    if (measuring_.empty()) return;
    std::vector<Stopwatch::Work> works;
    std::vector<Seen*> seen;
    for (Measuring& measuring : measuring_) {
      for (const auto& [id, part] : timed_tasks(measuring.bench->made)) {
        works.push_back(measuring.bench->work(id));
        seen.push_back(&(measuring.runs.*part));
      }
    }
    const double share =
        static_cast<double>(measuring_.size()) / static_cast<double>(blocks_.size());
    const Micros most = request_.time * share;
    Micros once;
    for (const Seen* each : seen) once += each->timing.device;
    if (once * Stopwatch::kWorksPerRound < most) time(works, most, seen);
    for (Measuring& measuring : measuring_) take(measuring);
    measuring_.clear();
    together_ = {};
  }

  /// Autograd takes a backward to the stream of its forward, whichever is current: without this,
  /// saved backwards would hop from the stream that is timed to their own and back.
  void keep_on(const Stopwatch& watch) const {
    for (const Measuring& measuring : measuring_) {
      const TaskId keeping = measuring.bench->made.saving_forward;
      if (keeping.valid()) watch.run(measuring.bench->work(keeping), 1);
    }
  }

  void time(const std::vector<Stopwatch::Work>& works, Micros most,
            const std::vector<Seen*>& seen) const {
    const BlockBench& bench = *measuring_.front().bench;
    for (const Bytes others : {bytes_between_runs(), 0_B}) {
      try {
        keep_on(bench.watch);
        const auto timings = bench.watch.time(works, most, touching(bench.device, others));
        for (std::size_t i = 0; i < timings.size(); ++i) seen[i]->timing = timings[i];
        return;
      } catch (const c10::OutOfMemoryError&) {
        // Without others; or each had room for its kernels beside fewer: the first runs stand.
      }
    }
  }

  void take(Measuring& measuring) {
    MeasuredBlock& result = results_[measuring.place];
    const BlockProfile& cold = result.costs = costs_of(measuring);
    result.again = shorter(times_of(measuring.runs, &Stopwatch::Timing::again),
                           {cold.forward, cold.backward, cold.saving_forward, cold.saved_backward});
    const Stopwatch::Timing &forward = measuring.runs.forward.timing,
                            &backward = measuring.runs.last_backward.timing;
    result.cores = (forward.cores + backward.cores).count /
                   std::max((forward.again + backward.again).count, 1.0);
    measuring.bench.reset();
    if (measuring.model->vocab < request_.model.vocab) {
      continue_to(request_.model.vocab, measuring, request_, result);
    }
    describe(request_.model.blocks[blocks_[measuring.place]], result.costs);
  }

  /// What the model says of the block, whatever was measured.
  void describe(const BlockSpec& block, BlockProfile& costs) const {
    const ModelSpec& model = request_.model;
    costs.key = similarity_key(model, block);
    costs.weights = weight_bytes(layout_of(block), request_.precision);
    costs.gradients = gradient_bytes(gradient_layout_of(model, block));
    costs.parameters = block.numel();
    if (block.kind == BlockKind::head) return;
    costs.activation = costs.activation_gradient =
        activation_bytes(model, {request_.micro_batch_size, request_.sequence},
                         Bytes{weight_element_bytes(request_.precision)});
  }

  const MeasureRequest& request_;
  const std::span<const BlockId> blocks_;
  PhaseListener& listener_;
  const TimeLimit limit_{request_.longest};
  std::vector<MeasuredBlock> results_;
  std::vector<Measuring> measuring_;  // on the device, to be timed in turns
  Bytes together_;                    // what they take of it
};

/// Runs `measure`; what torch throws names what was measured.
template <typename Measure>
auto with_torch_errors(const std::string& what, const Measure& measure) {
  try {
    return measure();
  } catch (const c10::Error& error) {
    throw ResourceError("measuring " + what + ": " + error.what_without_backtrace());
  }
}

}  // namespace

std::vector<MeasuredBlock> measure_blocks(const MeasureRequest& request,
                                          std::span<const BlockId> blocks,
                                          PhaseListener& listener) {
  return with_torch_errors("the model's blocks on " + request.device,
                           [&] { return BlockMeasurements(request, blocks, listener).run(); });
}

DeviceRates measure_device_rates(const std::string& device, Precision precision,
                                 std::int64_t parameters, const KernelFile& kernel_file) {
  return with_torch_errors(device, [&] {
    Device opened = Device::open(device);
    const auto kernels = StepKernels::open(opened, kernel_file, nobody());
    return DeviceRates{
        .update = measure_device_update_rate(opened, precision, parameters, kernels.get()),
        .task = hop_time(opened)};
  });
}

Bytes measure_beside_tensors(const std::string& device) {
  return Device::open(device).beside_tensors();
}

ProductRates measure_products(const std::string& device, std::int64_t hidden) {
  constexpr std::int64_t kRows = 128, kMostHidden = 512;
  constexpr int kRounds = 15;
  constexpr Micros kLongest{1e6};
  const std::int64_t size = std::min(hidden, kMostHidden);
  return with_torch_errors("products on " + device, [&] {
    try {
      Device opened = Device::open(device);
      const c10::Stream stream = opened.stream("compute");
      const c10::StreamGuard current(stream);
      const auto products = [&](at::ScalarType type) -> Stopwatch::Work {
        const auto options = at::TensorOptions(type).device(opened.torch_device());
        const at::Tensor x = at::ones({kRows, size}, options), w = at::ones({size, size}, options);
        return [x, w] {
          at::mm(x, w.t());
          at::mm(x, w);
          at::mm(x.t(), x);
        };
      };
      const Stopwatch::Work bf16 = products(at::kBFloat16), fp32 = products(at::kFloat);
      const Stopwatch watch(opened, stream);
      Micros least_bf16 = Stopwatch::kUnlimited, least_fp32 = Stopwatch::kUnlimited;
      const TimeLimit limit(kLongest);
      for (int round = 0; round < kRounds && (round < 2 || limit.left() > Micros{}); ++round) {
        least_bf16 = std::min(least_bf16, watch.run(bf16, 1).device);
        least_fp32 = std::min(least_fp32, watch.run(fp32, 1).device);
      }
      const auto flops = static_cast<double>(6 * kRows * size * size);
      return ProductRates{.bf16 = flops / least_bf16.seconds(),
                          .fp32 = flops / least_fp32.seconds()};
    } catch (const c10::OutOfMemoryError&) {
      return ProductRates{};
    }
  });
}

std::string torch_version() { return TORCH_VERSION; }

std::string cpu_capability() { return at::get_cpu_capability(); }

}  // namespace ferry
