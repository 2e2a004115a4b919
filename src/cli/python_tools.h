// Runs the Python side of ferry, tools/ferry_tools: tokenising, model directories, generation.
#pragma once

#include <string>
#include <vector>

namespace ferry {

/// Runs `python -m ferry_tools ARGUMENTS`, its standard error passed through, and returns what it
/// wrote to standard output. Throws AlreadyExplained when it exits with 2 (it has said why),
/// ResourceError when it cannot be run or fails otherwise.
std::string run_python_tool(const std::vector<std::string>& arguments);

/// The same with standard output passed through.
void show_python_tool(const std::vector<std::string>& arguments);

/// What was asked is wrong and has been explained on standard error already.
struct AlreadyExplained {};

}  // namespace ferry
