// What tells schedules of one strategy apart: a search tries none twice.
#pragma once

#include <string>

#include "planner/write/stream_schedule.h"

namespace ferry {

/// Of a schedule whose homes are decided.
std::string key_of(const StreamSchedule& schedule);

/// Of one whose homes follow from what it asks for.
std::string key_before_rest(const StreamSchedule& schedule);

}  // namespace ferry
