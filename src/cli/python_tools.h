// Runs the Python side of ferry, tools/ferry_tools: tokenising, model directories, generation.
#pragma once

#include <string>
#include <vector>

#include "base/units.h"

namespace ferry {

/// What a tool left.
struct ToolRun {
  std::string output;  // its standard output, where that was captured
  Bytes peak;          // the most that it held of DRAM (store/own_memory.h)
};

/// Runs `python -m ferry_tools ARGUMENTS`, its standard error passed through and its standard
/// output captured. Throws AlreadyExplained when it exits with 2 (it has said why), ResourceError
/// when it cannot be run or fails otherwise.
ToolRun run_python_tool(const std::vector<std::string>& arguments);

/// The same with standard output passed through.
void show_python_tool(const std::vector<std::string>& arguments);

/// What was asked is wrong and has been explained on standard error already.
struct AlreadyExplained {};

}  // namespace ferry
