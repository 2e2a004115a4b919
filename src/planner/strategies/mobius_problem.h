// What the evaluator of Mobius's program (cuts/evaluator.h) is told of a question, to judge cuts.
#pragma once

#include "planner/costs/chain.h"
#include "planner/costs/question.h"
#include "planner/cuts/evaluator.h"
#include "planner/cuts/partition.h"

namespace ferry {

/// Of block b: times in microseconds, memory and copies in bytes of whole slots. Of an evaluation
/// what goes forward only.
BlockCosts costs_of(const PlanQuestion& question, const Chain& chain, int b);

/// All devices as the one with the least memory and the slowest link; a stage's memory is what
/// workspace and the shortest rings leave.
EvaluatorProblem problem_of(const PlanQuestion& question, const Chain& chain);

}  // namespace ferry
