#include "planner/strategies/mixed_schedules.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/check.h"
#include "planner/costs/queues.h"
#include "planner/cuts/contiguous.h"
#include "planner/cuts/mapping.h"
#include "planner/mixed/mixed_pipe.h"
#include "planner/write/allocate.h"
#include "planner/write/builder.h"

namespace ferry {
namespace {

// A search among hundreds of blocks that ends within a second or two.
constexpr std::int64_t kExactNodes = 2000;
constexpr int kRefined = 2;
constexpr int kRounds = 16;
constexpr int kPatience = 6;
constexpr int kMostTurns = 8;  // stages per device
constexpr std::size_t kTurnsTried = 4;

BlockRole role_of(BlockKind kind) {
  switch (kind) {
    case BlockKind::embedding:
      return BlockRole::opening;
    case BlockKind::head:
      return BlockRole::closing;
    case BlockKind::attention:
    case BlockKind::mlp:
    case BlockKind::norm:
      return BlockRole::body;
  }
  return BlockRole::body;
}

Bytes peak_of(const ChainBlock& block) {
  Bytes peak = std::max(block.forward_workspace, block.backward_workspace);
  if (block.trainable) peak = std::max(peak, block.device_update_workspace);
  return peak;
}

struct Cut {
  std::vector<int> ends;
  std::vector<int> device_of_stage;
};

// In a chain a stage is a run of neighbours, and topological order is the chain's.
Cut cut_of(const std::vector<MixedStage>& stages) {
  Cut cut;
  for (const MixedStage& stage : stages) {
    const int first = cut.ends.empty() ? 0 : cut.ends.back();
    const int count = static_cast<int>(stage.blocks.size());
    FERRY_CHECK(stage.blocks.front() == first && stage.blocks.back() == first + count - 1,
                "a chain's stages are runs of neighbours");
    // Neighbours on one device run as one, whatever kept them apart in the search.
    const bool joins = !cut.ends.empty() && cut.device_of_stage.back() == stage.gpu;
    if (joins) {
      cut.ends.back() = first + count;
    } else {
      cut.ends.push_back(first + count);
      cut.device_of_stage.push_back(stage.gpu);
    }
  }
  return cut;
}

}  // namespace

BlockGraph mixed_graph(const PlanQuestion& question, const Chain& chain) {
  const auto devices = question.machine.devices.size();
  BlockGraph graph;
  for (std::size_t b = 0; b < chain.size(); ++b) {
    const ChainBlock& costs = chain.blocks[b];
    GraphBlock block;
    block.name = std::to_string(b);
    block.kind = to_string(costs.kind);
    block.role = role_of(costs.kind);
    const Micros passes = costs.backward + (has_forward(costs) ? costs.forward : Micros{});
    block.seconds.assign(devices, passes.seconds());
    block.weight = round_up(costs.weights, kHomeAlignment);
    block.gradient = costs.trainable ? slot_size(costs.gradients) : Bytes{};
    block.state = round_up(costs.states, kHomeAlignment);
    if (b > 0) block.state += slot_size(chain.activation) * static_cast<std::int64_t>(devices);
    block.peak = peak_of(costs);
    graph.blocks.push_back(std::move(block));
    if (b == 0) continue;
    GraphTensor tensor;
    tensor.name = "A." + std::to_string(b);
    tensor.producer = static_cast<int>(b) - 1;
    tensor.consumers = {static_cast<int>(b)};
    tensor.forward = tensor.gradient = chain.activation;
    graph.tensors.push_back(std::move(tensor));
  }
  const ChainBlock& head = chain.blocks.back();
  if (head.reads_weight >= 0) {
    const Bytes weight = chain.blocks[head.reads_weight].weights;
    graph.tied.push_back({head.reads_weight, {graph.size() - 1}, weight, head.gradients});
  }
  return graph;
}

MixedMachine mixed_machine(const PlanQuestion& question) {
  const Machine& machine = question.machine;
  MixedMachine result;
  for (int d = 0; d < static_cast<int>(machine.devices.size()); ++d) {
    result.gpus.push_back({machine.devices[d].name,
                           device_limit(question, d),
                           {},
                           upload_rate(question, d),
                           download_rate(question, d)});
  }
  for (int r = 0; r < static_cast<int>(machine.roots.size()); ++r) {
    SharedLink link;
    link.name = machine.roots[r].name;
    for (int d = 0; d < static_cast<int>(machine.devices.size()); ++d) {
      if (machine.devices[d].root == r) link.gpus.push_back(d);
    }
    const Rate up = machine.roots[r].up, down = machine.roots[r].down;
    if (up.limited()) link.in_rate = up.bytes_per_second;
    if (down.limited()) link.out_rate = down.bytes_per_second;
    if (!link.gpus.empty()) result.links.push_back(std::move(link));
  }
  return result;
}

std::vector<PipelineSchedule> mixed_schedules(const PlanQuestion& question, const Chain& chain) {
  const BlockGraph graph = mixed_graph(question, chain);
  MixedPipeOptions options;
  options.machine = mixed_machine(question);
  options.rules = {question.micro_batches, false, true};
  options.rematerialise = false;
  options.exact_nodes = kExactNodes;
  options.refined = kRefined;
  options.refine.rounds = kRounds;
  options.refine.patience = kPatience;

  const auto pipeline = [&](const Cut& cut) {
    return cut_pipeline(chain, cut.ends, cut.device_of_stage, question.micro_batches);
  };
  const MixedScore by_order = [&](const MixedCandidate& candidate) {
    const Cut cut = cut_of(candidate.stages);
    const Pipeline cut_chain = pipeline(cut);
    const Micros step =
        step_without_copies(chain, cut.ends, cut_chain,
                            pipeline_orders(OrderRule::one_f_one_b, cut_chain), question.clips);
    return std::max(step.seconds(), candidate.period * question.micro_batches);
  };
  std::vector<PipelineSchedule> schedules;
  for (const MixedScore& score : {by_order, MixedScore{}}) {
    const MixedPipeResult found = mixed_pipe(graph, options, score);
    if (!found.fits) continue;
    const Cut cut = cut_of(found.best.stages);
    const bool known = std::ranges::any_of(schedules, [&](const PipelineSchedule& schedule) {
      return schedule.ends == cut.ends && schedule.device_of_stage == cut.device_of_stage;
    });
    if (known) continue;
    const Pipeline cut_chain = pipeline(cut);
    const DeviceOrders orders = pipeline_orders(OrderRule::one_f_one_b, cut_chain);
    schedules.push_back({cut.ends, cut.device_of_stage, sequence_of(cut_chain, orders), 0});
  }
  return schedules;
}

std::vector<PipelineSchedule> schedules_in_turns(const PlanQuestion& question, const Chain& chain) {
  const int devices = static_cast<int>(question.machine.devices.size());
  const int blocks = static_cast<int>(chain.size());
  std::vector<double> times;
  for (const ChainBlock& block : chain.blocks) {
    times.push_back(block.backward.count + (has_forward(block) ? block.forward.count : 0.0));
  }
  std::vector<std::pair<Micros, PipelineSchedule>> found;
  for (int turns = 2; turns <= kMostTurns && turns * devices <= blocks && devices > 1; ++turns) {
    const std::vector<int> ends = min_max_cuts(times, turns * devices);
    for (const bool back : {false, true}) {
      const int stages = turns * devices;
      const std::vector<int> device_of_stage =
          back ? v_map(stages, devices) : cyclic_map(stages, devices);
      const Pipeline pipeline = cut_pipeline(chain, ends, device_of_stage, question.micro_batches);
      const DeviceOrders orders = pipeline_orders(OrderRule::one_f_one_b, pipeline);
      const Micros step = step_without_copies(chain, ends, pipeline, orders, question.clips);
      found.push_back({step, {ends, device_of_stage, sequence_of(pipeline, orders), 0}});
    }
  }
  std::ranges::stable_sort(found, {}, &std::pair<Micros, PipelineSchedule>::first);
  if (found.size() > kTurnsTried) found.resize(kTurnsTried);
  std::vector<PipelineSchedule> schedules;
  for (auto& [step, schedule] : found) schedules.push_back(std::move(schedule));
  return schedules;
}

}  // namespace ferry
