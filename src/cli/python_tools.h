// Runs the Python side of ferry, tools/ferry_tools: tokenising, model directories, generation.
#pragma once

#include <sys/types.h>

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

/// A tool that works beside the program for as long as this object lives. It ends by itself, with a
/// message, when something of its own goes wrong, and dies with the thread that has started it.
class PythonToolBeside {
 public:
  /// Starts `python -m ferry_tools ARGUMENTS`. Throws ResourceError.
  explicit PythonToolBeside(const std::vector<std::string>& arguments);
  PythonToolBeside(const PythonToolBeside&) = delete;
  PythonToolBeside& operator=(const PythonToolBeside&) = delete;
  /// Closes the tool's standard input, which asks it to end, and waits for it: half a minute at
  /// most, then it is ended.
  ~PythonToolBeside();

 private:
  int input_ = -1;  // our end of the tool's standard input
  pid_t tool_ = -1;
};

/// What was asked is wrong and has been explained on standard error already.
struct AlreadyExplained {
  int exit_code;
};

}  // namespace ferry
