// Proves a plan runnable before anything is allocated: rules 0 to 6 of docs/formats/plan.md.
//
// Two consecutive steps are replayed with one logical clock per resource, so that "ordered" means
// the same here as on streams with events: by a queue, by `after`, or by `after_previous`.
#pragma once

#include <optional>
#include <string>

#include "plan/plan.h"

namespace ferry {

/// The rules a plan has to keep.
enum class Rule {
  well_formed = 0,    // ids in range, tasks of the right shape for their kind and resource
  no_cycle = 1,       // within a step or across two, the queues' own order included
  reads_find = 2,     // every read finds its value, written by an ancestor, not overwritten, at the
                      // task's place
  slots_ordered = 3,  // accesses to shared bytes are ordered, whatever the driver's choice
  within_budget = 4,  // slots and workspace fit each place's budget
  each_once = 5,  // each block forward and backward once per micro-batch; sums complete; one update
  staleness = 6,  // forward and backward read weights exactly as old as declared
};

struct Violation {
  Rule rule = Rule::well_formed;
  std::string message;  // names the task, value, place and numbers
};

/// Returns the first broken rule, or nothing. Time O(tasks x resources + accesses); pure.
std::optional<Violation> verify(const Plan& plan);

/// Throws UserError with `origin` and the message when verify() finds a violation.
void require_verified(const Plan& plan, const std::string& origin);

}  // namespace ferry
