// Plans of the two shapes that strategies make, of any size, for tests and benchmarks; and what
// tests ask of any plan.
#pragma once

#include <string>
#include <string_view>

#include "plan/plan.h"

namespace ferry {

struct SampleShape {
  int layers = 1;  // of an attention and an MLP block; embedding, norm and head come on top
  int blocks_per_stage = 2;
  int devices = 1;
  int micro_batches = 2;
  bool tied = false;  // the head reads the embedding's weight
  PlanMode mode = PlanMode::train;
  int pieces = 1;  // of the states that the host updates; more than 1: they come in pieces
};

/// Everything at one device, updated there.
Plan sample_resident(const SampleShape& shape);

/// Stages take turns at the devices; weights come up when they are needed, activations and
/// gradients go to the host, which updates.
Plan sample_mobius(const SampleShape& shape);

/// What verify() finds, "2: " and the message if it breaks rule 2; or "nothing".
std::string found_in(const Plan& plan);

/// Requires: there is one.
TaskId task_named(const Plan& plan, std::string_view name);

}  // namespace ferry
