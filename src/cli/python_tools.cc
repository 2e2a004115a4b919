#include "cli/python_tools.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/installation.h"
#include "store/own_memory.h"

extern char** environ;

namespace ferry {
namespace {

constexpr int kCannotStart = 127;  // exit code of a child that could not become the tool
// A look at all pages of tokenisers takes some tens of milliseconds.
constexpr std::chrono::milliseconds kMemoryInterval{250};

/// The entries of a PYTHONPATH that lead to one place from everywhere: an empty or relative one is
/// the current folder, whose files are data and not programs.
std::string absolute_entries(const std::string& path) {
  std::string kept;
  std::istringstream entries(path);
  for (std::string entry; std::getline(entries, entry, ':');) {
    if (entry.starts_with('/')) kept += ":" + entry;
  }
  return kept;
}

/// The environment with our tools first on Python's path, and no look at the network.
std::vector<std::string> tool_environment() {
  std::vector<std::string> variables = {"PYTHONPATH=" + python_tools_folder().string(),
                                        "HF_HUB_OFFLINE=1"};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string variable = *entry;
    if (variable.starts_with("PYTHONPATH=")) {
      variables.front() += absolute_entries(variable.substr(variable.find('=') + 1));
    } else if (!variable.starts_with("HF_HUB_OFFLINE=")) {
      variables.push_back(variable);
    }
  }
  return variables;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> found;
  for (std::string& text : texts) found.push_back(text.data());
  found.push_back(nullptr);
  return found;
}

std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 4096> piece{};
  for (;;) {
    const ssize_t got = read(descriptor, piece.data(), piece.size());
    if (got == 0) return text;
    if (got > 0) {
      text.append(piece.data(), static_cast<std::size_t>(got));
    } else if (errno != EINTR) {
      throw system_error("reading from ferry_tools", errno);
    }
  }
}

struct ToolStreams {
  int input = -1;  // -1: nothing to read
  int output = STDOUT_FILENO;
};

/// Starts the tool with these standard streams. It dies with the thread that starts it,
/// however that ends: nothing goes on computing for a program that is gone.
pid_t start(const std::string& python, const std::vector<char*>& command,
            const std::vector<char*>& environment, ToolStreams streams) {
  if (access(python.c_str(), X_OK) != 0) throw system_error("cannot run " + python, errno);
  const pid_t program = getpid();
  const pid_t child = fork();
  if (child < 0) {
    throw ResourceError(system_error("cannot start " + python, errno).what() +
                        std::string(kProcessLimits));
  }
  if (child > 0) return child;
  // Other threads of the program may have held locks: only system calls from here on. Nobody is
  // asked anything: a library that wants to finds the end of its input.
  const int input = streams.input >= 0 ? streams.input : open("/dev/null", O_RDONLY);
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == program &&
      dup2(input, STDIN_FILENO) >= 0 && dup2(streams.output, STDOUT_FILENO) >= 0) {
    execve(python.c_str(), command.data(), environment.data());
  }
  _exit(kCannotStart);
}

pid_t start_tool(const std::vector<std::string>& arguments, ToolStreams streams) {
  const std::string python = python_interpreter();
  std::vector<std::string> command = {python, "-P", "-m", "ferry_tools"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  std::vector<std::string> variables = tool_environment();
  return start(python, pointers(command), pointers(variables), streams);
}

/// Runs the tool; captures its standard output when `capture` is set.
ToolRun run(const std::vector<std::string>& arguments, bool capture) {
  const std::string python = python_interpreter();
  std::array<int, 2> pipe_ends = {-1, -1};
  if (capture && pipe2(pipe_ends.data(), O_CLOEXEC) != 0) throw system_error("pipe", errno);
  ToolStreams streams;
  if (capture) streams.output = pipe_ends[1];
  const pid_t child = start_tool(arguments, streams);
  if (capture) close(pipe_ends[1]);
  PeakWatch memory([child] { return own_memory_with_children(child); }, kMemoryInterval);
  const std::string output = capture ? read_all(pipe_ends[0]) : "";
  if (capture) close(pipe_ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw system_error("waiting for ferry_tools", errno);
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {output, memory.peak()};
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  if (code == kUserError || code == kReaderGone) throw AlreadyExplained{code};
  if (WIFEXITED(status) && WEXITSTATUS(status) == kCannotStart) {
    throw ResourceError("cannot run " + python);
  }
  throw ResourceError(WIFSIGNALED(status)
                          ? "ferry_tools was ended by signal " + std::to_string(WTERMSIG(status))
                          : "ferry_tools ended with exit code " +
                                std::to_string(WEXITSTATUS(status)) + "; its message is above");
}

}  // namespace

PythonToolBeside::PythonToolBeside(const std::vector<std::string>& arguments) {
  std::array<int, 2> ends = {-1, -1};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw system_error("pipe", errno);
  input_ = ends[1];
  try {
    tool_ = start_tool(arguments, {.input = ends[0]});
  } catch (...) {
    close(ends[0]);
    close(input_);
    throw;
  }
  close(ends[0]);
}

PythonToolBeside::~PythonToolBeside() {
  close(input_);
  constexpr int kPatience = 30'000;  // ms: what it has to write is little, but drives may be slow
  for (int waited = 0; waited < kPatience; waited += 20) {
    if (waitpid(tool_, nullptr, WNOHANG) != 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  kill(tool_, SIGKILL);
  waitpid(tool_, nullptr, 0);
}

ToolRun run_python_tool(const std::vector<std::string>& arguments) {
  return run(arguments, /*capture=*/true);
}

void show_python_tool(const std::vector<std::string>& arguments) {
  run(arguments, /*capture=*/false);
}

}  // namespace ferry
