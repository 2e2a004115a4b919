// `ferry train` as it was typed, and as it is to be typed to go on.
#pragma once

#include <string>

#include "cli/commands.h"

namespace ferry {

/// The command as one line that a shell reads back to the same words.
std::string command_line(const TrainCommand& command);

/// The line that goes on from the newest checkpoint of an interrupted run. What was allowed to
/// change is that checkpoint's by then.
std::string resume_line(TrainCommand command);

/// A word as a shell takes it: in quotes where it holds more than letters, digits and a few signs.
std::string shell_quoted(const std::string& word);

}  // namespace ferry
