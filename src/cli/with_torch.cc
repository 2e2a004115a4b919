#include <algorithm>
#include <optional>

#include "base/error.h"
#include "cli/box_probes.h"
#include "cli/cache_folder.h"
#include "cli/machine_here.h"
#include "cli/measurements.h"
#include "cli/other_load.h"
#include "cli/print.h"
#include "cli/rehearsal_question.h"
#include "cli/torch_part.h"
#include "planner/costs/estimate.h"
#include "spec/host_limits.h"
#include "spec/layout.h"
#include "spec/row_chunks.h"
#include "train/devices.h"
#include "train/measure.h"
#include "train/rehearsal.h"
#include "train/update_rate.h"

namespace ferry {
namespace {

int kernel_threads(const Question& question, const MachineDevice& device) {
  return question.job.threads > 0 ? question.job.threads : device.threads;
}

/// Names the kernels and the device that they run on: a measurement holds for both. The processor's
/// instructions are those that torch uses (ATEN_CPU_CAPABILITY may name fewer than there are).
std::string device_key(const Question& question, const MachineDevice& device) {
  Machine alone;
  alone.devices.push_back(device);
  const std::string key = "torch " + torch_version() + ", " + processors_of(alone);
  if (device.kind == DeviceKind::sim) {
    return key + ", " + std::to_string(kernel_threads(question, device)) + " threads";
  }
  for (const FoundGpu& gpu : find_gpus()) {
    if (gpu.index != device.index) continue;
    const std::string name = gpu_name(gpu);  // equal GPUs are measured once
    return key + ", " + (name.empty() ? gpu.pci_address : name);
  }
  return key;
}

/// Names everything that the costs of a block depend on beside the device.
std::string block_key(const Question& question, const BlockSpec& block) {
  const ModelSpec& model = question.plan.model;
  const Job& job = question.job;
  const bool table = block.kind == BlockKind::embedding || block.kind == BlockKind::head;
  const BatchShape batch{job.train.micro_batch_size, job.data.sequence};
  const std::int64_t rows =
      block.kind == BlockKind::mlp ? mlp_chunk_rows(model, batch) : batch.tokens();
  return "block, cold and again, " + similarity_key(model, block) +
         (table && model.tied ? " tied" : "") + " norm " +
         std::to_string(static_cast<int>(model.norm)) + " activation " +
         std::to_string(static_cast<int>(model.activation)) + " positions " +
         std::to_string(static_cast<int>(model.positions)) +
         (model.input_first ? " [in, out]" : "") + ", " + to_string(question.plan.precision) + " " +
         std::to_string(batch.batch) + "x" + std::to_string(batch.time) +
         (rows < batch.tokens() ? " by " + std::to_string(rows) : "");
}

/// The figures of a block, by name.
struct NamedMicros {
  const char* name;
  Micros BlockProfile::*member;
  const char* name_again;
  Micros PassTimes::*again;
};
struct NamedBytes {
  const char* name;
  Bytes BlockProfile::*member;
};
constexpr NamedMicros kTimes[] = {
    {"forward_us", &BlockProfile::forward, "forward_again_us", &PassTimes::forward},
    {"backward_us", &BlockProfile::backward, "backward_again_us", &PassTimes::backward},
    {"saving_forward_us", &BlockProfile::saving_forward, "saving_forward_again_us",
     &PassTimes::saving_forward},
    {"saved_backward_us", &BlockProfile::saved_backward, "saved_backward_again_us",
     &PassTimes::saved_backward}};
constexpr NamedBytes kSizes[] = {
    {"weights", &BlockProfile::weights},
    {"gradients", &BlockProfile::gradients},
    {"forward_workspace", &BlockProfile::forward_workspace},
    {"backward_workspace", &BlockProfile::backward_workspace},
    {"saved", &BlockProfile::saved},
    {"saving_workspace", &BlockProfile::saving_workspace},
    {"saved_backward_workspace", &BlockProfile::saved_backward_workspace},
    {"activation", &BlockProfile::activation},
    {"activation_gradient", &BlockProfile::activation_gradient}};

std::vector<std::string> names_of_block() {
  std::vector<std::string> names = {"cores", "parameters"};
  for (const NamedMicros& time : kTimes) {
    names.emplace_back(time.name);
    names.emplace_back(time.name_again);
  }
  for (const auto& [name, member] : kSizes) names.emplace_back(name);
  return names;
}

Measurement to_measurement(const MeasuredBlock& block) {
  Measurement kept{.figures = {{"cores", block.cores},
                               {"parameters", static_cast<double>(block.costs.parameters)}},
                   .remark = block.remark};
  for (const NamedMicros& time : kTimes) {
    kept.figures[time.name] = (block.costs.*time.member).count;
    kept.figures[time.name_again] = (block.again.*time.again).count;
  }
  for (const auto& [name, member] : kSizes) {
    kept.figures[name] = static_cast<double>((block.costs.*member).count);
  }
  return kept;
}

MeasuredBlock from_measurement(const Measurement& kept, const std::string& key) {
  MeasuredBlock block;
  block.costs.key = key;
  block.cores = kept.figures.at("cores");
  block.remark = kept.remark;
  block.costs.parameters = static_cast<std::int64_t>(kept.figures.at("parameters"));
  for (const NamedMicros& time : kTimes) {
    block.costs.*time.member = {kept.figures.at(time.name)};
    block.again.*time.again = {kept.figures.at(time.name_again)};
  }
  for (const auto& [name, member] : kSizes) {
    block.costs.*member = {static_cast<std::int64_t>(kept.figures.at(name))};
  }
  return block;
}

/// What the block costs where a visit is one of all the step's micro-batches: the first of them
/// finds caches cold. Its times are the means over them.
BlockProfile costs_in_visits(const MeasuredBlock& block, int micro_batches) {
  BlockProfile costs = block.costs;
  for (const NamedMicros& time : kTimes) {
    const Micros again = block.again.*time.again;
    Micros& mean = costs.*time.member;
    mean = again + (mean - again) * (1.0 / micro_batches);
  }
  return costs;
}

/// Measures for one question, on one of its machine's devices, which is opened when something has
/// to be measured.
class Measurements {
 public:
  Measurements(const Question& question, std::size_t device, PhaseListener& listener)
      : question_(question),
        index_(device),
        listener_(listener),
        device_key_(device_key(question, machine_device())) {}

  MeasuredProfile profile() {
    list_blocks();
    measure_missing();
    beside_tensors_ = measured_beside_tensors();
    MeasuredProfile result;
    result.profile.name = "measured, " + device_key_;
    result.profile.micro_batch_size = question_.job.train.micro_batch_size;
    result.profile.sequence = question_.job.data.sequence;
    result.profile.measured = true;
    for (std::size_t i = 0; i < blocks_.size(); ++i) add_block(i, result);
    for (const BlockSpec& block : model().blocks) {
      const std::string key = similarity_key(model(), block);
      const auto entry = std::ranges::find(result.profile.blocks, key, &BlockProfile::key);
      result.profile.chain.push_back(static_cast<int>(entry - result.profile.blocks.begin()));
    }
    take_rates(result.profile);
    take_load(result.profile);
    if (others_ > 0) {
      result.remarks.push_back(print(
          "measured while other processes took %.1f of %d cores, so runs may be faster; measured "
          "again after %d minutes",
          others_, cores_by_affinity(), static_cast<int>(kBusyMachineKept.count())));
      listener_.phase(result.remarks.back());
    }
    return result;
  }

  ProductRates products() {
    const std::int64_t hidden = model().hidden;
    const auto figures =
        kept_figures(device_key_ + "; products " + std::to_string(hidden), {"bf16", "fp32"}, [&] {
          const ProductRates rates = measure_products(device(), hidden);
          return std::map<std::string, double>{{"bf16", rates.bf16}, {"fp32", rates.fp32}};
        });
    return {.bf16 = figures.at("bf16"), .fp32 = figures.at("fp32")};
  }

 private:
  /// What measuring keeps busy: a GPU does not compete with other processes for the cores.
  enum class Uses { device, cores };

  /// Figures that were kept, or are measured now and kept, unless the first is 0: there was no
  /// room.
  template <typename Measure>
  std::map<std::string, double> kept_figures(const std::string& key,
                                             const std::vector<std::string>& names,
                                             const Measure& measure, Uses uses = Uses::device) {
    if (const auto found = find_measurement(key, names)) {
      others_ = std::max(others_, found->others);
      return found->figures;
    }
    const OtherLoad load;
    const std::map<std::string, double> figures = measure();
    const double others = others_since(load, uses);
    if (figures.at(names.front()) > 0) {
      keep_measurement(key, {.figures = figures, .others = others});
    }
    return figures;
  }

  double others_since(const OtherLoad& load, Uses uses) {
    const bool on_cores = uses == Uses::cores || machine_device().kind == DeviceKind::sim;
    const double others = on_cores ? load.cores().value_or(others_) : 0;
    others_ = std::max(others_, others);
    return others;
  }

  const ModelSpec& model() const { return question_.plan.model; }

  const MachineDevice& machine_device() const { return question_.plan.machine.devices[index_]; }

  std::string key_of(BlockId block) const {
    return device_key_ + "; " + block_key(question_, model().blocks[block]);
  }

  /// One block of every kind that costs the same.
  void list_blocks() {
    std::vector<std::string> keys;
    for (const BlockId b : model().blocks.ids()) {
      const std::string key = similarity_key(model(), model().blocks[b]);
      if (std::ranges::find(keys, key) != keys.end()) continue;
      keys.push_back(key);
      blocks_.push_back(b);
      const auto kept = find_measurement(key_of(b), names_of_block());
      found_.push_back(kept ? std::optional(from_measurement(*kept, key)) : std::nullopt);
      if (kept) others_ = std::max(others_, kept->others);
    }
  }

  MeasureRequest request() {
    return {.model = model(),
            .micro_batch_size = question_.job.train.micro_batch_size,
            .sequence = question_.job.data.sequence,
            .precision = question_.plan.precision,
            .device = device(),
            .kernel_file = kernel_file,
            .memory = room()};
  }

  void measure_missing() {
    std::vector<BlockId> missing;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      if (!found_[i]) missing.push_back(blocks_[i]);
    }
    if (missing.empty()) return;
    const ProductRates rates = products();
    MeasureRequest asked = request();
    asked.flops = question_.plan.precision == Precision::bf16 ? rates.bf16 : rates.fp32;
    const OtherLoad load;
    const std::vector<MeasuredBlock> measured = measure_blocks(asked, missing, listener_);
    const double others = others_since(load, Uses::device);
    for (std::size_t i = 0, next = 0; i < blocks_.size(); ++i) {
      if (found_[i]) continue;
      found_[i] = measured[next++];
      const BlockKind kind = model().blocks[blocks_[i]].kind;
      // What had no room to keep anything may have it under another budget.
      const bool whole =
          found_[i]->costs.saved > 0_B || (kind != BlockKind::attention && kind != BlockKind::mlp);
      if (!found_[i]->measured || !whole) continue;
      Measurement kept = to_measurement(*found_[i]);
      kept.others = others;
      keep_measurement(key_of(blocks_[i]), kept);
    }
  }

  void add_block(std::size_t i, MeasuredProfile& result) {
    const MeasuredBlock& block = *found_[i];
    const std::string key = similarity_key(model(), model().blocks[blocks_[i]]);
    if (!block.measured) {
      result.remarks.push_back("block " + key + ": estimated, since " + block.remark);
      listener_.phase(result.remarks.back());
      result.profile.blocks.push_back(estimate(key));
      return;
    }
    if (!block.remark.empty()) result.remarks.push_back("block " + key + ": " + block.remark);
    const auto count =
        static_cast<double>(std::ranges::count_if(model().blocks, [&](const BlockSpec& each) {
          return similarity_key(model(), each) == key;
        }));
    const BlockProfile costs = costs_in_visits(block, question_.job.train.micro_batches);
    const double time = count * (costs.forward + costs.backward).count;
    time_ += time;
    core_time_ += time * block.cores;
    if (time > most_time_) {
      most_time_ = time;
      heaviest_ = blocks_[i];
    }
    result.profile.blocks.push_back(costs);
    count_kept(result.profile.blocks.back());
  }

  /// What lies beside a run's slots, and beside what was weighed of the block: its rotary table,
  /// what its device's driver holds, and on a GPU what torch's allocator cannot use between tensors
  /// of many sizes: 6 and 10 % of two models' workspace on an H100.
  void count_kept(BlockProfile& costs) const {
    constexpr std::int64_t kBetweenTensors = 8;  // a part of so many
    const bool is_gpu = machine_device().kind == DeviceKind::cuda;
    const Bytes kept =
        beside_tensors_ + rotary_bytes(model(), question_.job.data.sequence,
                                       Bytes{weight_element_bytes(question_.plan.precision)});
    for (const auto workspace : kWorkspaces) {
      Bytes& size = costs.*workspace;
      if (is_gpu) size += Bytes{size.count / kBetweenTensors};
      size += kept;
    }
  }

  /// A logical device counts its part, and what its streams have for themselves: torch takes whole
  /// segments of 2 and 20 MiB for small and for large tensors of a stream, that of the slots and
  /// that which computes, and cuBLAS up to 32 MiB for products on one. A run loads kernels that
  /// measuring did not meet: with 64 MiB in all 3B parameters went 14 MiB beyond their 24 GiB.
  Bytes measured_beside_tensors() {
    constexpr Bytes kOfStreams = 64_MiB, kLoadedLater = 32_MiB;
    if (machine_device().kind == DeviceKind::sim) return {};
    const auto figures = kept_figures(device_key_ + "; held by the driver", {"bytes"}, [&] {
      return std::map<std::string, double>{
          {"bytes", static_cast<double>(measure_beside_tensors(device()).count)}};
    });
    const auto sharing = std::ranges::count_if(
        question_.plan.machine.devices,
        [&](const MachineDevice& each) { return same_hardware(each, machine_device()); });
    const Bytes held{static_cast<std::int64_t>(figures.at("bytes")) / sharing};
    return held > 0_B ? held + kOfStreams + kLoadedLater : 0_B;
  }

  /// By the rate of the device's products, where that is known.
  BlockProfile estimate(const std::string& key) {
    Machine machine = question_.plan.machine;
    const ProductRates rates = products();
    for (MachineDevice& each : machine.devices) {
      if (each.flops_bf16 <= 0) each.flops_bf16 = rates.bf16;
      if (each.flops_fp32 <= 0) each.flops_fp32 = rates.fp32;
    }
    const Profile profile =
        estimate_profile(model(), machine, question_.plan.precision,
                         {question_.job.train.micro_batch_size, question_.job.data.sequence});
    return *find_block(profile, key);
  }

  void take_rates(Profile& profile) {
    const Precision precision = question_.plan.precision;
    const int cores = question_.plan.machine.host.cores;
    const std::int64_t size = update_size(profile);
    const std::string updates =
        device_key_ + "; updates " + to_string(precision) + " " + std::to_string(size);
    const auto rates = kept_figures(updates, {"update", "task_us"}, [&] {
      const DeviceRates measured = measure_device_rates(device(), precision, size, kernel_file);
      return std::map<std::string, double>{{"update", measured.update},
                                           {"task_us", measured.task.count}};
    });
    const auto host = kept_figures(
        device_key_ + "; host updates " + to_string(precision) + " cores " + std::to_string(cores),
        {"update"},
        [&] {
          return std::map<std::string, double>{{"update", measure_update_rate(precision, cores)}};
        },
        Uses::cores);
    profile.update_rate = host.at("update");
    profile.device_update_rate = rates.at("update");
    profile.task_overhead = profile.copy_overhead = {rates.at("task_us")};
    if (time_ > 0) profile.compute_cores = core_time_ / time_;
  }

  /// A simulated device is slower in training than a block alone: copies, enqueueing and the
  /// driving thread take of the host's cores, caches and memory, and so do other devices that
  /// compute meanwhile. Where several have cores of their own, each is planned with so many that
  /// all compute as much as they did; else blocks take longer, or less where the machine was slow
  /// while they were measured.
  void take_load(Profile& profile) {
    constexpr double kNoise = 1.07;  // a factor
    if (machine_device().kind != DeviceKind::sim || time_ <= 0) return;
    const std::vector<std::size_t> equal = equal_devices();
    const double cores = std::max(1, question_.plan.machine.host.cores);
    const double threads = std::max(1, kernel_threads(question_, machine_device()));
    const int filling =  // devices that have a core for every thread
        std::clamp(static_cast<int>(cores / threads), 1, static_cast<int>(equal.size()));
    const std::string key = key_of(heaviest_) + "; rehearsed on " + std::to_string(equal.size()) +
                            " devices, cores " + std::to_string(question_.plan.machine.host.cores);
    const auto figures = kept_figures(key, {"together", "task_us", "copy_us"}, [&] {
      const Rehearsed seen = rehearsed(profile, equal, filling);
      return std::map<std::string, double>{{"together", seen.computing},
                                           {"task_us", seen.delays.task.count},
                                           {"copy_us", seen.delays.copy.count}};
    });
    profile.task_overhead = std::max(profile.task_overhead, Micros{figures.at("task_us")});
    profile.copy_overhead = std::max(profile.copy_overhead, Micros{figures.at("copy_us")});
    const double together = figures.at("together");
    const double slower = together > 0 ? filling / together : 1;
    if (slower < kNoise && slower > 1 / kNoise) return;
    if (slower > 1 && filling > 1) {
      profile.compute_cores = std::max(profile.compute_cores, cores / together);
      return;
    }
    for (BlockProfile& costs : profile.blocks) {
      for (const NamedMicros& time : kTimes) costs.*time.member = costs.*time.member * slower;
    }
  }

  /// What few layers of the model show (train/rehearsal.h) while `least` devices compute; what the
  /// profile says where they take too long, nothing where they have no room.
  Rehearsed rehearsed(const Profile& profile, const std::vector<std::size_t>& devices, int least) {
    constexpr Micros kLongestStep{2e6};
    PlanQuestion asked = rehearsal_question(question_.plan, devices);
    for (;; asked.micro_batches /= 2) {
      asked.profile = with_visits_of(profile, asked.micro_batches);
      const PlanAnswer answer = plan_without_remedies(asked);
      const auto* planned = std::get_if<Planned>(&answer);
      if (planned == nullptr) return {};
      if (planned->prediction.step <= kLongestStep) {
        return rehearsed(asked, planned->plan, devices, least);
      }
      if (asked.micro_batches == 1) return {.computing = static_cast<double>(least), .delays = {}};
    }
  }

  Rehearsed rehearsed(const PlanQuestion& asked, const Plan& plan,
                      const std::vector<std::size_t>& devices, int least) {
    device();  // opens all
    std::vector<std::string> names;
    for (const std::size_t d : devices) names.push_back(opened_->names()[d]);
    listener_.phase("rehearsing a step");
    try {
      return rehearse(asked.model, plan, names, asked.machine, kernel_file, least);
    } catch (const ResourceError& error) {  // a run may fare better, with other homes
      listener_.phase("not rehearsed: " + std::string(error.what()));
      return {};
    }
  }

  /// The profile for visits of so many micro-batches.
  Profile with_visits_of(Profile profile, int micro_batches) const {
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      if (!found_[i]->measured) continue;
      const BlockProfile costs = costs_in_visits(*found_[i], micro_batches);
      for (const NamedMicros& time : kTimes) profile.blocks[i].*time.member = costs.*time.member;
    }
    return profile;
  }

  /// The accelerators that compute with the same kernels and threads as this one, itself included.
  std::vector<std::size_t> equal_devices() const {
    const std::vector<MachineDevice>& devices = question_.plan.machine.devices;
    std::vector<std::size_t> equal;
    for (std::size_t d = 0; d < devices.size(); ++d) {
      const bool counted = std::ranges::any_of(
          equal, [&](std::size_t other) { return same_hardware(devices[other], devices[d]); });
      if (!counted && device_key(question_, devices[d]) == device_key_) equal.push_back(d);
    }
    return equal;
  }

  /// Of the size that updates on the device mostly have: caches make small ones faster.
  static std::int64_t update_size(const Profile& profile) {
    constexpr std::int64_t kUnit = 256, kFewest = 1 << 14, kMost = 1 << 20;
    const std::int64_t largest =
        std::ranges::max(profile.blocks, {}, &BlockProfile::parameters).parameters;
    return std::clamp((largest + kUnit - 1) / kUnit * kUnit, kFewest, kMost);
  }

  /// What a block's tensors may take: the device's budget; of a simulated device, whose memory is
  /// DRAM, what the budgets leave of what is free.
  Bytes room() const {
    const Bytes budget = device_budget(question_.plan, static_cast<int>(index_)).bytes;
    if (machine_device().kind != DeviceKind::sim) return budget;
    const Bytes free = host_limits("/", cores_by_affinity()).memory;
    return std::min(budget + question_.plan.host_budget, Bytes{free.count / 10 * 9});
  }

  /// The device. All are opened: torch counts the devices of a process once. Nobody measures links.
  const std::string& device() {
    if (!opened_) {
      Machine machine = without_links(question_.plan.machine);
      for (MachineDevice& device : machine.devices) {
        if (device.kind == DeviceKind::sim) device.memory = room();
      }
      opened_.emplace(machine, SimulationChoices{.threads = question_.job.threads});
    }
    return opened_->names()[index_];
  }

  const Question& question_;
  const std::size_t index_;  // of the device
  PhaseListener& listener_;
  const std::string device_key_;
  std::optional<OpenDevices> opened_;
  std::vector<BlockId> blocks_;                      // one of each similarity key
  std::vector<std::optional<MeasuredBlock>> found_;  // of each
  Bytes beside_tensors_;
  double others_ = 0;                // cores that other processes took while figures were measured
  double time_ = 0, core_time_ = 0;  // of a micro-batch through measured blocks
  double most_time_ = 0;             // of a kind of block
  BlockId heaviest_;                 // of that kind
};

}  // namespace

void hold_gpus_to_budgets(const Job& job, const Machine* machine) { hold_gpus_to(job, machine); }

std::vector<FoundGpu> gpus_here() { return find_gpus(); }

Machine machine_here(const HostLimits& limits, PhaseListener& listener) {
  const Probes probes =
      probes_of_this_box(256_MiB, [&listener](const std::string& what) { listener.phase(what); });
  const Machine machine = this_machine(limits, probes.gpus);
  return with_rates_of_box(machine, probes, cache_file("machine", box_key(probes)), listener);
}

// On every device that may differ from those before it, one after the other.
MeasuredProfile measured_profile(const Question& question, PhaseListener& listener) {
  const std::vector<MachineDevice>& devices = question.plan.machine.devices;
  std::optional<MeasuredProfile> all;
  std::vector<std::string> keys;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    const std::string key = device_key(question, devices[d]);
    if (std::ranges::find(keys, key) != keys.end()) continue;
    keys.push_back(key);
    MeasuredProfile one = Measurements(question, d, listener).profile();
    if (!all) {
      all = std::move(one);
    } else {
      all->profile = of_slowest(std::move(all->profile), one.profile);
      all->remarks.insert(all->remarks.end(), one.remarks.begin(), one.remarks.end());
    }
  }
  return std::move(*all);
}

PrecisionChoice precision_here(const Question& question, PhaseListener& listener) {
  const MachineDevice& device = question.plan.machine.devices.front();
  if (device.kind == DeviceKind::cuda) return precision_of_gpu(multiplies_bf16(device.index));
  if (auto choice = precision_of_cpu(cpu_capability())) return *choice;
  const ProductRates rates = Measurements(question, 0, listener).products();
  return faster_precision(rates.bf16, rates.fp32);
}

}  // namespace ferry
