// What `ferry plan` answers, as text in 100 columns and as JSON.
#pragma once

#include <string>
#include <vector>

#include "planner/more_memory.h"
#include "planner/planner.h"
#include "planner/what_if.h"

namespace ferry {

/// One row per kind of value, one column per place, and the predicted step. Of a paper's program
/// its stages and figures.
std::string plan_table(const PlanQuestion& question, const Planned& planned);

/// Every candidate with time, bound, gap and busiest resource, and why the winner wins.
std::string explanation(const Planned& planned);

/// What each pass of each strategy's search took, and the step before and after it.
std::string passes_table(const Planned& planned);

/// What more memory of each kind would save, or what is busiest where that is nothing.
std::string more_memory_table(const Planned& planned, const std::vector<MoreMemory>& rows);

std::string variations_table(const std::vector<Variation>& variations);

/// The answer for programs, with the plan in `file`, or nowhere when that is empty;
/// docs/formats/cli.md lists its fields.
std::string plan_json(const PlanQuestion& question, const Planned& planned,
                      const std::vector<MoreMemory>& more_memory,
                      const std::vector<Variation>& variations, const std::string& file);
/// The same without what other questions say, and without tasks.
std::string plan_summary_json(const PlanQuestion& question, const Planned& planned,
                              const std::string& file);
std::string does_not_fit_json(const DoesNotFit& answer);

/// "does not fit: gpu0 needs 96.0 MiB, has 64.0 MiB (budget.device, job.yaml:9)" and the remedies.
std::string does_not_fit_text(const DoesNotFit& answer);

}  // namespace ferry
