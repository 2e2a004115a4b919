#include "papers/ftpipe/ftpipe_experiments.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "papers/ftpipe/t5_fixture.h"
#include "planner/cuts/contiguous.h"
#include "planner/cuts/mapping.h"
#include "planner/mixed/mixed_pipe.h"
#include "planner/orders/orders.h"

namespace ferry {
namespace {

constexpr int kGpus = 8;
constexpr double kExact = 1e-9;  // rounding of sums, as a share

double makespan(OrderRule rule, const Pipeline& pipeline) {
  return earliest_times(pipeline, order_of(rule, pipeline)).makespan;
}

// The time unit is 1/20 of an encoder block's forward.
void add_steps(std::vector<PaperRow>& rows) {
  struct Step {
    double decoder;  // forward of a decoder block
    int micro_batches;
    double memory_driven, time_balanced, cyclic, v, visit;
  };
  const std::vector<int> memory_driven(8, 6);
  const std::vector<int> time_balanced = {4, 4, 4, 4, 4, 4, 12, 12};
  const std::vector<int> mixed(16, 3);
  for (const Step& step :
       {Step{7, 5, 4512, 3936, 3552, 3888, 3552}, Step{7, 8, 5952, 4944, 4272, 4860, 4272},
        Step{7, 20, 11712, 8976, 8181, 8748, 8160}, Step{20, 8, 7200, 0, 5520, 7200, 5520}}) {
    const std::string where = std::string(step.decoder < 20 ? ", r = 0.35" : ", r = 1") +
                              ", M = " + std::to_string(step.micro_batches);
    const auto add = [&](const std::string& what, OrderRule rule, const std::vector<int>& blocks,
                         const std::vector<int>& map, double published) {
      const Pipeline pipeline = t5_pipeline(blocks, map, step.decoder, step.micro_batches);
      rows.push_back(value_row(what + where, makespan(rule, pipeline), published));
    };
    const auto chain = cyclic_map(kGpus, kGpus);
    const auto cyclic = cyclic_map(16, kGpus);
    add("step, contiguous by memory", OrderRule::gpipe, memory_driven, chain, step.memory_driven);
    if (step.time_balanced > 0) {
      add("step, contiguous by time", OrderRule::gpipe, time_balanced, chain, step.time_balanced);
    }
    add("step, mixed, cyclic", OrderRule::gpipe, mixed, cyclic, step.cyclic);
    add("step, mixed, V", OrderRule::gpipe, mixed, v_map(16, kGpus), step.v);
    add("step, mixed, stage visits", OrderRule::stage_visit, mixed, cyclic, step.visit);
  }
}

// The most balanced compute among contiguous cuts of at least this balance of memory.
double best_time_balance(const std::vector<ParetoCut>& cuts, double memory_balance) {
  double best = 0;
  for (const ParetoCut& cut : cuts) {
    if (cut.size_balance >= memory_balance - 1e-3) best = std::max(best, cut.time_balance);
  }
  return best;
}

// Balance is mean / max over the GPUs.
void add_balances(std::vector<PaperRow>& rows) {
  const BlockGraph graph = t5_fixture(kGpus, Bytes{});
  std::vector<double> times;
  std::vector<double> sizes;
  for (const GraphBlock& block : graph.blocks) {
    times.push_back(block.seconds.front());
    sizes.push_back(static_cast<double>(block.weight.count));
  }
  const std::vector<ParetoCut> cuts = contiguous_pareto(times, sizes, kGpus);
  struct Balance {
    const char* memory;
    double at_least, compute;
  };
  for (const Balance& row : {Balance{"0.875", 0.875, 0.675}, Balance{"0.750", 0.750, 0.802},
                             Balance{"0.656", 0.656, 0.810}, Balance{"0.477", 0.477, 0.862},
                             Balance{"0.4375", 0.4375, 0.964}}) {
    rows.push_back(
        printed_row(std::string("compute balance, contiguous, memory balance ") + row.memory,
                    best_time_balance(cuts, row.at_least), row.compute, 1e-3));
  }
  MixedPipeOptions options;
  for (int g = 0; g < kGpus; ++g) {
    options.machine.gpus.push_back(
        {.name = "gpu" + std::to_string(g), .budget = 11_GiB, .context = {}});
  }
  const MixedPipeResult mixed = mixed_pipe(graph, options);
  FERRY_CHECK(mixed.fits, "T5 on eight GPUs");
  rows.push_back(value_row("compute balance, ours (mixed-pipe)", mixed.compute_balance, 1));
  rows.push_back(value_row("memory balance, ours (mixed-pipe)", mixed.memory_balance, 1));
}

}  // namespace

std::vector<PaperRow> ftpipe_experiments() {
  std::vector<PaperRow> rows;
  add_steps(rows);
  add_balances(rows);
  return rows_from(Provenance::derived, kExact, std::move(rows));
}

}  // namespace ferry
