// A step of many micro-batches as one of fewer and larger ones, which takes about as long: for
// searches whose plans are so large that few can be tried.
#pragma once

#include <cstddef>
#include <optional>

#include "planner/costs/chain.h"
#include "planner/costs/question.h"
#include "planner/write/stream_schedule.h"

namespace ferry {

struct CoarseStep {
  PlanQuestion question;  // of question.micro_batches larger ones
  Chain chain;            // whose times, activations and tokens are of one of these
};

/// How many micro-batches are enough for what overlaps in the step, whose plan has `tasks` tasks;
/// or fewer, so that theirs has at most `searchable`, by proportion. Nothing where it has no more
/// as it is, or more even with two.
std::optional<int> coarse_micro_batches(const PlanQuestion& question, std::ptrdiff_t tasks,
                                        std::ptrdiff_t searchable);

/// The step with fewer micro-batches: blocks take as long in all, and read and write as many bytes.
/// What kernels allocate stays that of a micro-batch of the question.
/// Requires: 0 < micro_batches < question.micro_batches.
CoarseStep coarse_step(const PlanQuestion& question, const Chain& chain, int micro_batches);

/// A schedule of a coarse step as one of `micro_batches`: its rings take as many bytes.
StreamSchedule fine_schedule(StreamSchedule coarse, int coarse_micro_batches, int micro_batches);

}  // namespace ferry
