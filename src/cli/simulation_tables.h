// What `ferry simulate` shows of a plan, as text in 100 columns and as JSON (docs/formats/cli.md).
#pragma once

#include <optional>
#include <string>

#include "exec/simulator.h"

namespace ferry {

/// One row per resource, per pool and per drive, then the step. `endurance`: the bytes that each
/// drive may be written in its life.
std::string simulation_table(const Plan& plan, const Simulation& simulation,
                             std::optional<Bytes> endurance);
std::string simulation_json(const Plan& plan, const Simulation& simulation,
                            std::optional<Bytes> endurance);

}  // namespace ferry
