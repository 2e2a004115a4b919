// A step of many micro-batches as one of fewer rounds or of fewer and larger micro-batches: for
// searches whose plans are so large that few can be tried.
#pragma once

#include <cstddef>
#include <vector>

#include "planner/costs/chain.h"
#include "planner/costs/question.h"
#include "planner/write/stream_schedule.h"

namespace ferry {

struct CoarseStep {
  PlanQuestion question;  // of fewer micro-batches, in as many rounds or fewer
  Chain chain;            // whose times, activations and tokens are of one of these
  int in_round = 0;       // micro-batches of the whole step that one of its rounds stands for
};

/// Of a step whose plan has `tasks` tasks, so that theirs have at most `searchable`, by proportion.
/// One has a few rounds in place of many, and updates that are as many times shorter: it takes as
/// many times less, and needs as much memory; but its first round, which has no sums to go on with,
/// counts for more. The other has as many rounds. Either has, if need be, as few micro-batches as
/// overlap like those of the step, each so much larger that blocks take as long, and read and write
/// as many bytes; what kernels allocate stays that of a micro-batch of the question. None where
/// the step's plan is no larger than that, nor one that would be even with two micro-batches.
std::vector<CoarseStep> coarse_steps(const PlanQuestion& question, const Chain& chain,
                                     std::ptrdiff_t tasks, std::ptrdiff_t searchable);

/// A schedule of `coarse`, each of whose rounds has the same visits, as one of the question: its
/// rings take as many bytes.
StreamSchedule fine_schedule(StreamSchedule schedule, const CoarseStep& coarse,
                             const PlanQuestion& question);

}  // namespace ferry
