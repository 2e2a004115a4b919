#include "data/ending_process.h"

#include <csignal>
#include <cstdint>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

namespace ferry {
namespace {

constexpr unsigned kExiting = 0x4;  // PF_EXITING of the kernel
constexpr std::uint64_t kKilled = std::uint64_t{1} << (SIGKILL - 1);

// proc_pid_stat(5): the name in parentheses may hold anything; state and flags are fields 3 and 9.
bool exits(const std::string& folder) {
  std::ifstream file(folder + "/stat");
  std::string text;
  std::getline(file, text);
  std::istringstream fields(text.substr(text.rfind(')') + 1));
  char state = ' ';
  fields >> state;
  std::string skipped;
  for (int field = 4; field < 9; ++field) fields >> skipped;
  unsigned flags = 0;
  fields >> flags;
  return state == 'Z' || state == 'X' || (flags & kExiting) != 0;
}

// proc_pid_status(5): a signal that the process has not taken yet.
bool is_killed(const std::string& folder) {
  std::ifstream file(folder + "/status");
  for (std::string word; file >> word;) {
    if (word == "SigPnd:" || word == "ShdPnd:") {
      std::uint64_t pending = 0;
      file >> std::hex >> pending >> std::dec;
      if ((pending & kKilled) != 0) return true;
    }
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return false;
}

}  // namespace

bool is_ending(pid_t process) {
  const std::string folder = "/proc/" + std::to_string(process);
  return is_killed(folder) || exits(folder);
}

}  // namespace ferry
