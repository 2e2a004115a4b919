#include "planner/mixed/mixed_memory.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/check.h"

namespace ferry {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

HoldsRule per_stage(std::function<int(const MixedStage&)> inflight) {
  return [inflight = std::move(inflight)](const std::vector<MixedStage>& stages) {
    std::vector<StageHolds> holds;
    for (const MixedStage& stage : stages) holds.push_back({inflight(stage), 0, false});
    return holds;
  };
}

class MemorySum {
 public:
  MemorySum(const MemoryModel& model, const std::vector<MixedStage>& stages,
            const std::vector<StageHolds>& holds)
      : model_(model),
        stages_(stages),
        holds_(holds),
        stage_of_(stage_of_block(stages, model.graph.size())),
        memory_(model.machine.gpus.size()) {}

  std::vector<Bytes> run() {
    for (std::size_t g = 0; g < memory_.size(); ++g) memory_[g] = model_.machine.gpus[g].context;
    add_tensors();
    add_weights();
    for (const TiedWeight& tied : model_.graph.tied) add_replicas(tied);
    add_peaks();
    return std::move(memory_);
  }

 private:
  Bytes& of_stage(int stage) { return memory_[at(stages_[at(stage)].gpu)]; }

  void add_tensors() {
    for (std::size_t t = 0; t < model_.graph.tensors.size(); ++t) {
      const GraphTensor& tensor = model_.graph.tensors[t];
      const bool again = !model_.rematerialised.empty() && model_.rematerialised[t] != 0;
      const int producer = stage_of_[at(tensor.producer)];
      std::vector<int> readers;
      for (const int consumer : tensor.consumers) {
        if (stage_of_[at(consumer)] != producer) readers.push_back(stage_of_[at(consumer)]);
      }
      std::ranges::sort(readers);
      const auto rest = std::ranges::unique(readers);
      readers.erase(rest.begin(), rest.end());

      std::vector<int> gpus;
      for (const int reader : readers) {
        const StageHolds& hold = holds_[at(reader)];
        if (!again && !hold.offloaded) of_stage(reader) += hold.inflight * tensor.forward;
        const int gpu = stages_[at(reader)].gpu;
        if (gpu != stages_[at(producer)].gpu) gpus.push_back(gpu);
      }
      std::ranges::sort(gpus);
      const auto others = std::ranges::unique(gpus);
      gpus.erase(others.begin(), others.end());
      const Bytes buffers =
          again ? 2 * tensor.recompute_weight : 2 * (tensor.forward + tensor.gradient);
      for (const int gpu : gpus) memory_[at(gpu)] += buffers;
      if (!again && !gpus.empty()) of_stage(producer) += buffers;
    }
  }

  void add_weights() {
    for (int s = 0; s < static_cast<int>(stages_.size()); ++s) {
      for (const int b : stages_[at(s)].blocks) {
        const GraphBlock& block = model_.graph.blocks[at(b)];
        if (!model_.rules.streamed_weights) of_stage(s) += block.weight + block.gradient;
        if (model_.rules.states_on_gpu) of_stage(s) += block.state;
        of_stage(s) += holds_[at(s)].versions * block.weight;
      }
    }
  }

  void add_replicas(const TiedWeight& tied) {
    if (model_.rules.streamed_weights) return;
    std::vector<char> has(memory_.size(), 0);
    has[at(stages_[at(stage_of_[at(tied.owner)])].gpu)] = 1;
    for (const int reader : tied.readers) {
      const int gpu = stages_[at(stage_of_[at(reader)])].gpu;
      if (has[at(gpu)] == 0) memory_[at(gpu)] += tied.weight + tied.gradient;
      has[at(gpu)] = 1;
    }
  }

  // Streamed weights: W and G of the running stage and W of the one that is fetched beside it.
  void add_peaks() {
    std::vector<Bytes> peak(memory_.size());
    std::vector<Bytes> visit(memory_.size());
    std::vector<Bytes> largest(memory_.size());
    std::vector<Bytes> second(memory_.size());
    for (const MixedStage& stage : stages_) {
      Bytes weight;
      Bytes gradient;
      Bytes saved;
      Bytes widest;
      for (const int b : stage.blocks) {
        const GraphBlock& block = model_.graph.blocks[at(b)];
        weight += block.weight;
        gradient += block.gradient;
        saved += block.saved;
        widest = std::max(widest, block.peak);
      }
      const std::size_t g = at(stage.gpu);
      peak[g] = std::max(peak[g], saved + widest);
      visit[g] = std::max(visit[g], gradient);
      second[g] = std::max(second[g], std::min(weight, largest[g]));
      largest[g] = std::max(largest[g], weight);
    }
    for (std::size_t g = 0; g < memory_.size(); ++g) {
      memory_[g] += peak[g];
      if (model_.rules.streamed_weights) memory_[g] += largest[g] + second[g] + visit[g];
    }
  }

  const MemoryModel& model_;
  const std::vector<MixedStage>& stages_;
  const std::vector<StageHolds>& holds_;
  std::vector<int> stage_of_;
  std::vector<Bytes> memory_;
};

}  // namespace

HoldsRule holds_1f1b(int micro_batches) {
  return per_stage(
      [=](const MixedStage& stage) { return std::min(micro_batches, stage.depth + 1); });
}

std::vector<Bytes> stage_memory(const MemoryModel& model, const std::vector<MixedStage>& stages,
                                const std::vector<StageHolds>& holds) {
  FERRY_CHECK(holds.size() == stages.size(), "every stage holds something");
  return MemorySum(model, stages, holds).run();
}

}  // namespace ferry
