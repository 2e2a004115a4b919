// One line of `ferry train --events`; docs/formats/cli.md has the events.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace ferry {

/// Writes an event to standard output: the fields of an object, and `event`. Flushed, so that a
/// reader follows the run; whether lines came out is asked at the end (standard_streams.h).
void write_event(const std::string& event, nlohmann::json fields);

}  // namespace ferry
