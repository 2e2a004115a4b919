// For tests that change a plan: small ones to begin with, and their tasks and instances by name.
#pragma once

#include <string_view>

#include "plan/plan.h"
#include "plan/sample_plans.h"

namespace ferry {

/// testdata/smallest.plan: two blocks and one micro-batch at one device, with clipping.
Plan smallest_plan();

SampleShape two_layers_on_two_devices();

// Requires, of all names: there is one.
Task& task_of(Plan& plan, std::string_view name);
InstanceId instance_named(const Plan& plan, std::string_view name);
Instance& instance_of(Plan& plan, std::string_view name);

/// The plan without one task; what came after it comes after what it came after.
Plan without_task(Plan plan, std::string_view name);

}  // namespace ferry
