// The earliest-start evaluator of a fixed partition: how long a step takes by Mobius's program
// (ASPLOS 2023, section 3.2), constraints (3) to (11), without solving it.
//
// Earliest start is optimal: the largest prefetch turns (9) into a maximum of earlier times. Units
// are the caller's, but consistent: bytes, time and bytes per time.
#pragma once

#include <vector>

namespace ferry {

/// One stage: consecutive blocks that run as one.
struct StageCosts {
  double forward_time = 0;         // T^f, one micro-batch
  double backward_time = 0;        // T^b, recompute included
  double forward_memory = 0;       // S^f, needed on the device
  double backward_memory = 0;      // S^b
  double forward_upload = 0;       // W^f, moved to the device before the stage runs
  double backward_upload = 0;      // W^b
  double activation = 0;           // A, passed to the next stage
  double activation_gradient = 0;  // A', passed to the stage before
  double gradient_download = 0;    // used with EvaluatorSwitches::gradient_downloads
  double update_time = 0;          // used with EvaluatorSwitches::updates
};

/// What the printed program leaves out. All off: the program as printed.
struct EvaluatorSwitches {
  bool first_loads = false;           // the first N forward stages are uploaded too, every step
  bool gradient_downloads = false;    // after a stage's last micro-batch, one at a time per device
  bool updates = false;               // the host updates stage by stage as gradients arrive
  bool updates_wait_for_all = false;  // ... but only once every gradient is there (clipping)
  double stage_overhead = 0;          // latency of every upload and of every passed boundary
};

struct EvaluatorProblem {
  int devices = 1;        // N; stage j (from 0) runs in slot j mod N
  int micro_batches = 1;  // M
  double memory = 0;      // G, per device
  double bandwidth = 0;   // B, one average
  EvaluatorSwitches switches;
};

/// Start times and prefetched bytes of every stage, and the step's length.
struct StageSchedule {
  bool feasible = false;                      // constraint (4); the rest is empty when it fails
  std::vector<std::vector<double>> forward;   // t^f, [stage][micro-batch]
  std::vector<std::vector<double>> backward;  // t^b
  std::vector<double> forward_prefetch;       // P^f; 0 for the first N stages
  std::vector<double> backward_prefetch;      // P^b; 0 for the last N stages
  double forward_end = 0;
  double step = 0;  // objective (3); with switches on, the end of the last download or update
};

/// Evaluates the partition in O(stages x micro-batches). Pure.
StageSchedule evaluate_stages(const EvaluatorProblem& problem,
                              const std::vector<StageCosts>& stages);

/// The step alone, in O(stages); infinity when infeasible. Equal to evaluate_stages() up to
/// rounding: start times are longest paths, and every path enters a stage's micro-batches at the
/// first and leaves them at the last ((7), (9), (11), (3)). From stage a to stage b it costs the
/// times of these stages and of passing between them once each, and M - 1 further times of stages
/// of its choice. That is largest when all M - 1 are of one stage, and then no other micro-batch is
/// touched.
double step_of_stages(const EvaluatorProblem& problem, const std::vector<StageCosts>& stages);

}  // namespace ferry
