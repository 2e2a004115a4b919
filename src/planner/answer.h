// The search over strategies on its own: what remedies ask of the planner again and again.
#pragma once

#include <cstddef>
#include <variant>

#include "planner/planner.h"
#include "planner/strategies/strategy.h"

namespace ferry {

using AnswerWithoutRemedies = std::variant<Planned, Shortage>;

/// Of micro-batches through blocks. Beyond, a plan has millions of tasks: making it would take
/// minutes, and gigabytes.
inline constexpr std::size_t kMostPasses = 200'000;

/// make_plan() without its checks, verification and remedies. Requires: the question has a profile.
AnswerWithoutRemedies answer_question(const PlanQuestion& question);

}  // namespace ferry
