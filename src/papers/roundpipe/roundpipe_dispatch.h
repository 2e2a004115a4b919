// RoundPipe's dispatch: a round's stages go to the devices in turn, each with all micro-batches of
// the round, and the next round goes on where this one stopped (RoundPipe section 3.2). Stages
// start as soon as their device is free and their input there; transfers take no time.
#pragma once

#include <vector>

#include "papers/roundpipe/roundpipe_partition.h"

namespace ferry {

struct RoundPipeDispatch {
  int devices = 1;
  std::vector<double> stage_times;  // one micro-batch, in order of dispatch
  std::vector<int> rounds;          // micro-batches of each; they make up a step
};

/// M micro-batches in as many rounds of at least `least` as there can be, or in one; sizes differ
/// by at most one, larger rounds first.
std::vector<int> even_rounds(int micro_batches, int least);

/// When each of `steps` steps ends if each follows the one before without a flush.
std::vector<double> dispatch_ends(const RoundPipeDispatch& dispatch, int steps);

/// The number of steps behind which the sequence is back at its first device.
int dispatch_cycle(const RoundPipeDispatch& dispatch);

/// The time of a step in the long run of steps without a flush; with a flush it is the makespan
/// dispatch_ends(dispatch, 1).
double steady_step(const RoundPipeDispatch& dispatch);

/// The idle share of the devices in a step that takes `step`.
double dispatch_bubble(const RoundPipeDispatch& dispatch, double step);

/// The best of a few partitions, judged by simulation in the mode that runs.
struct RoundPipeChoice {
  RoundPipePartition partition;
  std::vector<int> rounds;
  double step = 0;
};

struct RoundPipeSearch {
  RoundPipeProblem problem;  // `cost` is not used
  bool flush = true;
  int keep = 8;  // partitions tried of each cost
};

/// Nothing (no stages) when a layer does not fit. Deterministic; ties to fewer stages, then to
/// more rounds.
RoundPipeChoice search_roundpipe(const RoundPipeSearch& search,
                                 const std::vector<RoundPipeLayer>& layers);

std::vector<double> stage_times(const RoundPipePartition& partition);

}  // namespace ferry
