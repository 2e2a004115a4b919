#include "papers/pipeline_experiments.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>

#include "papers/roundpipe/roundpipe_dispatch.h"
#include "planner/cuts/contiguous.h"
#include "planner/cuts/mapping.h"
#include "planner/orders/orders.h"

namespace ferry {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kExact = 1e-12;  // rounding of sums, as a share

Pipeline even_pipeline(const std::vector<RoundPipeLayer>& layers, int devices, int chunks,
                       int micro_batches) {
  std::vector<double> times;
  for (const RoundPipeLayer& layer : layers) times.push_back(layer.forward + layer.backward);
  Pipeline pipeline;
  pipeline.devices = devices;
  pipeline.micro_batches = micro_batches;
  pipeline.device = cyclic_map(devices * chunks, devices);
  int first = 0;
  for (const int end : min_max_cuts(times, devices * chunks)) {
    double forward = 0;
    double backward = 0;
    for (; first < end; ++first) {
      forward += layers[first].forward;
      backward += layers[first].backward;
    }
    pipeline.forward.push_back(forward);
    pipeline.backward.push_back(backward);
  }
  return pipeline;
}

double bubble_of(OrderRule rule, const Pipeline& pipeline) {
  return 1 - efficiency(pipeline, earliest_times(pipeline, order_of(rule, pipeline)).makespan);
}

// Layers of (1, 3) and one unit of weights, and a head worth `head` of them.
std::vector<RoundPipeLayer> layers_with_head(int layers, double head) {
  std::vector<RoundPipeLayer> result(layers, {1, 3, 1, 2});
  result.push_back({head, 3 * head, head, 2 * head});
  return result;
}

std::string label(int layers, int head) {
  return std::to_string(layers) + " layers, head of " + std::to_string(head);
}

// What RoundPipe section 3.3 and 4.4 define, with equal stages and with a head of two layers.
void add_roundpipe_tables(std::vector<PaperRow>& rows) {
  struct Equal {
    int devices, stages, rounds, round;
    double makespan, bubble;
  };
  for (const Equal& row : {Equal{4, 17, 2, 4, 37, 0.081081}, Equal{4, 17, 2, 6, 55, 0.072727},
                           Equal{4, 16, 2, 6, 51, 0.058824}, Equal{8, 27, 2, 8, 61, 0.114754},
                           Equal{8, 27, 2, 9, 68, 0.106618}, Equal{3, 7, 3, 4, 30, 0.066667}}) {
    const RoundPipeDispatch dispatch{row.devices, std::vector<double>(row.stages, 1.0),
                                     std::vector<int>(row.rounds, row.round)};
    const double makespan = dispatch_ends(dispatch, 1).front();
    const std::string where =
        ", N = " + std::to_string(row.devices) + ", S = " + std::to_string(row.stages) + ", " +
        std::to_string(row.rounds) + " rounds of " + std::to_string(row.round);
    rows.push_back(value_row("makespan in stage times" + where, makespan, row.makespan));
    rows.push_back(
        printed_row("bubble" + where, dispatch_bubble(dispatch, makespan), row.bubble, 1e-6));
  }
  struct Unequal {
    int layers;
    double steady, first;
  };
  for (const Unequal& row :
       {Unequal{24, 0.000, 0.171}, Unequal{32, 0.029, 0.146}, Unequal{36, 0.000, 0.123},
        Unequal{48, 0.000, 0.096}, Unequal{64, 0.008, 0.077}}) {
    const auto partition =
        roundpipe_partitions({.devices = 8, .micro_batches = 16}, layers_with_head(row.layers, 2));
    const RoundPipeDispatch dispatch{8, stage_times(partition.front()), {8, 8}};
    const double one_step = dispatch_bubble(dispatch, dispatch_ends(dispatch, 1).front());
    const double no_flush = dispatch_bubble(dispatch, steady_step(dispatch));
    const std::string what = "bubble, " + label(row.layers, 2);
    rows.push_back(printed_row(what + ", one step", one_step, row.first, 1e-3));
    rows.push_back(printed_row(what + ", no flush", no_flush, row.steady, 1e-3));
  }
}

// Of the bubble of the best looped pipeline.
PaperRow saved_row(int layers, int head, double saved) {
  const std::string what = "share of best baseline's bubble saved, " + label(layers, head);
  if (head > 1) return band_row(what, saved, 0.23, 0.55);
  PaperRow row = told_row(what, saved);
  row.remark = "nothing published: the paper's models have heads of 1.6 layers or more";
  return row;
}

// RoundPipe's simulated bubbles: 8 GPUs, 16 micro-batches. The chains are ours; a stage may hold 12
// layers' weights and gradients.
void add_roundpipe_claims(std::vector<PaperRow>& rows) {
  for (const int layers : {24, 32, 48, 64}) {
    for (const int head : {1, 2, 4}) {
      const auto chain = layers_with_head(layers, head);
      RoundPipeSearch search{.problem = {.devices = 8, .micro_batches = 16, .memory = 24},
                             .flush = false};
      const auto bubble = [&] {
        const RoundPipeChoice choice = search_roundpipe(search, chain);
        return dispatch_bubble({8, stage_times(choice.partition), choice.rounds}, choice.step);
      };
      rows.push_back(
          band_row("steady bubble, " + label(layers, head), bubble(), -kInfinity, 0.045));
      search.flush = true;
      const double synchronous = bubble();
      double baseline = 1;
      for (int chunks = 1; chunks <= 4 && 8 * chunks <= layers; ++chunks) {
        const Pipeline pipeline = even_pipeline(chain, 8, chunks, 16);
        baseline = std::min({baseline, bubble_of(OrderRule::interleaved, pipeline),
                             bubble_of(OrderRule::stage_visit, pipeline)});
      }
      rows.push_back(saved_row(layers, head, 1 - synchronous / baseline));
    }
  }
}

}  // namespace

std::vector<PaperRow> pipeline_experiments() {
  std::vector<PaperRow> rows;
  const std::vector<RoundPipeLayer> layers(48, {1, 3});
  for (const int m : {8, 16, 24}) {
    const std::string batches = ", 8 GPUs, M = " + std::to_string(m);
    const double simple = 1 - pipeline_efficiency(m, 8);
    const Pipeline pipeline = even_pipeline(layers, 8, 1, m);
    rows.push_back(
        value_row("gpipe bubble" + batches, bubble_of(OrderRule::gpipe, pipeline), simple));
    rows.push_back(
        value_row("1f1b bubble" + batches, bubble_of(OrderRule::one_f_one_b, pipeline), simple));
    const double interleaved = 1 - interleaved_efficiency(m, 8, 2);
    rows.push_back(value_row("interleaved bubble, v = 2" + batches,
                             bubble_of(OrderRule::interleaved, even_pipeline(layers, 8, 2, m)),
                             interleaved));
  }
  return rows_from(Provenance::printed, kExact, std::move(rows));
}

std::vector<PaperRow> roundpipe_experiments() {
  std::vector<PaperRow> tables;
  add_roundpipe_tables(tables);
  std::vector<PaperRow> claims;
  add_roundpipe_claims(claims);
  std::vector<PaperRow> rows = rows_from(Provenance::derived, kExact, std::move(tables));
  for (PaperRow& row : rows_from(Provenance::reading, kExact, std::move(claims))) {
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace ferry
