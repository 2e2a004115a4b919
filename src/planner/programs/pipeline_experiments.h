// Published figures of Mobius and RoundPipe beside those of the pure programs here: rows for
// `ferry papers`. Nothing is fitted per row; models that the papers do not describe are ours
// (GPT-like, by FLOPs), and a row says so by its name alone. Sources: sections 8, 10, 12, 13 and 18
// of the Mobius and RoundPipe page; section 9.1 of the FTPipe page.
#pragma once

#include <string>
#include <vector>

#include "planner/planner.h"

namespace ferry {

struct ExperimentRow {
  std::string what;
  double ours = 0;
  std::string published;  // as printed: "0.171", "3.8 - 5.1", "< 0.045"
  double error = 0;       // relative: (ours - published) / published; 0 within a band, else to its
                          // nearer end
};

/// A row against a band [low, high]; low = high: a value; an infinite end: one-sided.
ExperimentRow band_row(const std::string& what, double ours, double low, double high);

/// Closed forms, and bubbles of RoundPipe with and without a flush; bubbles are shares of time.
std::vector<ExperimentRow> roundpipe_experiments();

/// A GPT-like model of 16-bit weights and gradients.
struct GptShape {
  std::string name;  // "15b"
  int layers = 1;
  int hidden = 1;
};

/// One block per layer, 12 h^2 parameters, times by FLOPs at `flops` per second: forward 2 per
/// parameter and token and attention, backward three times that (recompute, two products).
Profile gpt_profile(const GptShape& shape, int sequence, double flops);

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
MobiusMeasurement measure_mobius(const Machine& machine, const GptShape& shape);

/// Ratio of `zero` to `mobius`, bytes above 12 GB/s, and what cross mapping gains, for models of 3
/// to 51 billion parameters.
std::vector<ExperimentRow> mobius_experiments(const std::vector<Machine>& machines);

}  // namespace ferry
