#include "planner/mixed/mixed_memory.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/check.h"

namespace ferry {
namespace {

HoldsRule per_stage(std::function<int(const MixedStage&)> inflight) {
  return [inflight = std::move(inflight)](const MixedStages& stages) {
    StagesHold holds;
    for (const MixedStage& stage : stages) holds.push_back({inflight(stage), 0, false});
    return holds;
  };
}

class MemorySum {
 public:
  MemorySum(const MemoryModel& model, const MixedStages& stages, const StagesHold& holds)
      : model_(model),
        stages_(stages),
        holds_(holds),
        stage_of_(stage_of_block(stages, model.graph.blocks.size())),
        memory_(model.machine.gpus.size()) {}

  GpuBytes run() {
    for (const GpuId g : memory_.ids()) memory_[g] = model_.machine.gpus[g].context;
    add_tensors();
    add_weights();
    for (const TiedWeight& tied : model_.graph.tied) add_replicas(tied);
    add_peaks();
    return std::move(memory_);
  }

 private:
  Bytes& of_stage(MixedStageId stage) { return memory_[stages_[stage].gpu]; }

  void add_tensors() {
    for (std::size_t t = 0; t < model_.graph.tensors.size(); ++t) {
      const GraphTensor& tensor = model_.graph.tensors[t];
      const bool again = !model_.rematerialised.empty() && model_.rematerialised[t] != 0;
      const MixedStageId producer = stage_of_[tensor.producer];
      std::vector<MixedStageId> readers;
      for (const BlockId consumer : tensor.consumers) {
        if (stage_of_[consumer] != producer) readers.push_back(stage_of_[consumer]);
      }
      std::ranges::sort(readers);
      const auto rest = std::ranges::unique(readers);
      readers.erase(rest.begin(), rest.end());

      std::vector<GpuId> gpus;
      for (const MixedStageId reader : readers) {
        const StageHolds& hold = holds_[reader];
        if (!again && !hold.offloaded) of_stage(reader) += hold.inflight * tensor.forward;
        const GpuId gpu = stages_[reader].gpu;
        if (gpu != stages_[producer].gpu) gpus.push_back(gpu);
      }
      std::ranges::sort(gpus);
      const auto others = std::ranges::unique(gpus);
      gpus.erase(others.begin(), others.end());
      const Bytes buffers =
          again ? 2 * tensor.recompute_weight : 2 * (tensor.forward + tensor.gradient);
      for (const GpuId gpu : gpus) memory_[gpu] += buffers;
      if (!again && !gpus.empty()) of_stage(producer) += buffers;
    }
  }

  void add_weights() {
    for (const MixedStageId s : stages_.ids()) {
      for (const BlockId b : stages_[s].blocks) {
        const GraphBlock& block = model_.graph.blocks[b];
        if (!model_.rules.streamed_weights) of_stage(s) += block.weight + block.gradient;
        if (model_.rules.states_on_gpu) of_stage(s) += block.state;
        of_stage(s) += holds_[s].versions * block.weight;
      }
    }
  }

  void add_replicas(const TiedWeight& tied) {
    if (model_.rules.streamed_weights) return;
    IdVector<GpuId, char> has(memory_.size(), 0);
    has[stages_[stage_of_[tied.owner]].gpu] = 1;
    for (const BlockId reader : tied.readers) {
      const GpuId gpu = stages_[stage_of_[reader]].gpu;
      if (has[gpu] == 0) memory_[gpu] += tied.weight + tied.gradient;
      has[gpu] = 1;
    }
  }

  // Streamed weights: W and G of the running stage and W of the one that is fetched beside it.
  void add_peaks() {
    GpuBytes peak(memory_.size());
    GpuBytes visit(memory_.size());
    GpuBytes largest(memory_.size());
    GpuBytes second(memory_.size());
    for (const MixedStage& stage : stages_) {
      Bytes weight;
      Bytes gradient;
      Bytes saved;
      Bytes widest;
      for (const BlockId b : stage.blocks) {
        const GraphBlock& block = model_.graph.blocks[b];
        weight += block.weight;
        gradient += block.gradient;
        saved += block.saved;
        widest = std::max(widest, block.peak);
      }
      const GpuId g = stage.gpu;
      peak[g] = std::max(peak[g], saved + widest);
      visit[g] = std::max(visit[g], gradient);
      second[g] = std::max(second[g], std::min(weight, largest[g]));
      largest[g] = std::max(largest[g], weight);
    }
    for (const GpuId g : memory_.ids()) {
      memory_[g] += peak[g];
      if (model_.rules.streamed_weights) memory_[g] += largest[g] + second[g] + visit[g];
    }
  }

  const MemoryModel& model_;
  const MixedStages& stages_;
  const StagesHold& holds_;
  IdVector<BlockId, MixedStageId> stage_of_;
  GpuBytes memory_;
};

}  // namespace

HoldsRule holds_1f1b(int micro_batches) {
  return per_stage(
      [=](const MixedStage& stage) { return std::min(micro_batches, stage.depth + 1); });
}

GpuBytes stage_memory(const MemoryModel& model, const MixedStages& stages,
                      const StagesHold& holds) {
  FERRY_CHECK(holds.size() == stages.size(), "every stage holds something");
  return MemorySum(model, stages, holds).run();
}

}  // namespace ferry
