// Questions for the planner's tests: small models by a few numbers, machines by a few words.
#pragma once

#include <cstdint>
#include <random>
#include <string>

#include "planner/planner.h"

namespace ferry {

struct SampleModel {
  bool gpt2 = false;
  bool tied = false;
  int layers = 2;
  int hidden = 32;
  int vocab = 64;
};

ModelSpec sample_model(const SampleModel& shape);

struct SampleMachine {
  int devices = 1;
  int roots = 0;         // devices take turns
  double link_rate = 0;  // bytes per second, each way; 0: unthrottled
  int cores = 2;
  int threads = 1;
  double p2p_rate = 0;  // bytes per second, each way; 0: through the host
};

Machine sample_machine(const SampleMachine& shape);

/// A question with generous budgets and an estimated profile; without the search of single blocks
/// and without rounds, which take most of the time that planning does.
PlanQuestion sample_question(const SampleModel& model, const SampleMachine& machine,
                             int micro_batches);

/// Round costs in place of estimates: every block 1 ms forward and 3 ms backward, 4 KiB workspace.
void use_round_costs(PlanQuestion& question);

/// Bytes of weights and optimizer states: 12 per parameter.
Bytes states_of(const PlanQuestion& question);

/// Any model, machine, mode, budget and batch, of a seed; `small`: at most two layers.
PlanQuestion random_question(std::uint64_t seed, bool small = false);

/// How many questions, random or of a sweep, a test tries that usually tries so many:
/// FERRY_RANDOM_PERCENT of them, if that is set (tests/README.md).
std::uint64_t random_share(std::uint64_t usually);

/// Expects that more than `least` of a test's random questions showed something, where it tried all
/// of them.
void expect_enough(std::uint64_t found, std::uint64_t least);

/// Expects that the plan, and evaluation if there is one, is verified and copies nothing in vain,
/// is no faster than its lower bound and nowhere above a budget, nor are both together.
void expect_promises_hold(const Planned& planned);

/// The plan, or an empty one after a test failure that says what does not fit.
Planned must_fit(const PlanQuestion& question, const Planner& planner = make_plan);

}  // namespace ferry
