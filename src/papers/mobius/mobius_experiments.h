// Published figures of Mobius (ASPLOS 2023) beside those of its pure program and of ZeRO-3 on the
// machine library's servers: rows for `ferry papers`. Nothing is fitted. The paper's models are not
// described, so these are ours (GPT-like, by FLOPs).
#pragma once

#include <string>
#include <vector>

#include "papers/published/paper_rows.h"
#include "planner/planner.h"

namespace ferry {

/// A GPT-like model of 16-bit weights and gradients.
struct GptModel {
  std::string name;  // "15b"
  int layers = 1;
  int hidden = 1;
};

/// One block per layer, 12 h^2 parameters, times by FLOPs at `flops` per second: forward 2 per
/// parameter and token and attention, backward three times that (recompute, two products).
Profile gpt_profile(const GptModel& model, int sequence, double flops);

/// What one server does with one model: M = N micro-batches of one sequence of 512 tokens, half of
/// the devices' peak FLOPs (of 80 TFLOP/s where the machine does not say), and the best of Mobius's
/// even partitions: as many stages as devices, and two to six times as many. Updates take the
/// machine's rate; a machine without one leaves them out on both sides.
struct MobiusMeasurement {
  double mobius_step = 0;      // seconds, cross mapping, on shared links
  double sequential_step = 0;  // seconds, the same with sequential mapping
  double zero_step = 0;        // seconds
  double zero_idle = 0;        // share of zero's step in which devices do not compute
  double fast_bytes = 0;       // share of Mobius's bytes that copies moved above 12 GB/s
  int stages = 0;
};

/// Requires: some even partition fits.
MobiusMeasurement measure_mobius(const Machine& machine, const GptModel& model);

/// Ratio of `zero` to `mobius`, bytes above 12 GB/s, and what cross mapping gains, for models of 3
/// to 51 billion parameters.
std::vector<PaperRow> mobius_experiments(const std::vector<Machine>& machines);

/// Bytes per parameter that ZeRO-3 and Mobius move in a step with four and eight devices, beside
/// closed forms of what section 3.1 describes.
std::vector<PaperRow> mobius_traffic_experiments();

/// The optimum of the paper's mixed-integer program over the step of our search, on the machine.
/// Empty where ferry was built without HiGHS.
std::vector<PaperRow> mobius_partition_experiments(const Machine& machine);

}  // namespace ferry
