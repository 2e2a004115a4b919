#include "cli/watchdog.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <optional>
#include <string>

#include "base/error.h"
#include "cli/commands.h"
#include "spec/host_limits.h"
#include "spec/kernel_file.h"
#include "store/own_memory.h"

namespace ferry {
namespace {

constexpr timespec kInterval = {.tv_sec = 0, .tv_nsec = 100'000'000};  // between two looks
constexpr int kStopSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

// The kernel counts a kill when it decides on it; a large process takes a while to be gone.
constexpr std::chrono::seconds kRecent{60};

bool is_ignored(int signal) {
  struct sigaction action = {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

/// What is waited for: the child's end, and the stop signals that are not ignored.
sigset_t awaited_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGCHLD);
  for (const int signal : kStopSignals) {
    if (!is_ignored(signal)) sigaddset(&signals, signal);
  }
  return signals;
}

[[noreturn]] void become(const std::filesystem::path& program, char** arguments, pid_t watchdog,
                         const sigset_t& signals) {
  sigprocmask(SIG_UNBLOCK, &signals, nullptr);
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == watchdog) {
    execv(program.c_str(), arguments);
  }
  std::fprintf(stderr, "cannot run %s: %s\n", program.c_str(), std::strerror(errno));
  _exit(kResourceError);
}

/// Whether the kernel's memory killer was at work lately.
class MemoryKiller {
 public:
  explicit MemoryKiller(const std::filesystem::path& root)
      : file_(root / "proc/vmstat"), kills_(read_entry(file_, "oom_kill")) {}

  void look() {
    const auto kills = read_entry(file_, "oom_kill");
    if (kills != kills_) last_ = std::chrono::steady_clock::now();
    kills_ = kills;
  }

  /// Nothing where the kernel does not say.
  std::optional<bool> killed_lately() {
    look();
    if (!kills_) return std::nullopt;
    return last_ && std::chrono::steady_clock::now() - *last_ < kRecent;
  }

 private:
  const std::filesystem::path file_;
  std::optional<std::int64_t> kills_;
  std::optional<std::chrono::steady_clock::time_point> last_;
};

/// What there is to say about a child that ended by SIGKILL.
std::string obituary(std::optional<bool> by_memory_killer, Bytes held, const HostLimits& limits) {
  const std::string who = !by_memory_killer ? "killed, by the kernel for its memory or by someone"
                          : *by_memory_killer
                              ? "killed by the kernel, which was short of memory"
                              : "killed by SIGKILL, which someone else than the kernel sent";
  return who + ": the run held " + to_string(held) + "; when it began " + to_string(limits.memory) +
         " could be taken (" + limits.memory_limit +
         ")\n  what was saved stays; go on with --resume" +
         (by_memory_killer.value_or(true) ? ", a smaller budget.host, or fewer programs beside\n"
                                          : "\n");
}

/// Whether the child may not have had it. What a terminal sends reaches the whole group, but its
/// hangup the leader of the session alone; the child answers a second SIGHUP as the first.
bool is_for_the_child(const siginfo_t& signal) {
  return signal.si_signo != SIGCHLD && (signal.si_code <= 0 || signal.si_signo == SIGHUP);
}

/// Waits for the child, looks at its memory meanwhile, and passes on what was sent to this process
/// alone.
int wait_for(pid_t child, const sigset_t& signals, const HostLimits& limits, MemoryKiller& killer) {
  Bytes held;
  int status = 0;
  for (;;) {
    siginfo_t signal = {};
    const int number = sigtimedwait(&signals, &signal, &kInterval);
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended < 0 && errno != EINTR) throw system_error("waiting for ferry-torch", errno);
    if (ended == child) break;
    if (number > 0 && is_for_the_child(signal)) kill(child, number);
    held = std::max(held, own_memory(child));
    killer.look();
  }
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  const int signal = WTERMSIG(status);
  if (std::ranges::find(kStopSignals, signal) != std::end(kStopSignals)) return kInterrupted;
  if (signal != SIGKILL) return 128 + signal;
  const auto by_memory_killer = killer.killed_lately();
  std::fputs(obituary(by_memory_killer, held, limits).c_str(), stderr);
  return by_memory_killer.value_or(true) ? kResourceError : 128 + SIGKILL;
}

}  // namespace

int watch_over(const std::filesystem::path& program, char** arguments,
               const std::filesystem::path& root) {
  const HostLimits limits = host_limits(root, 1);
  MemoryKiller killer(root);
  std::signal(SIGCHLD, SIG_DFL);  // whoever started us may have left it ignored
  const sigset_t signals = awaited_signals();
  if (sigprocmask(SIG_BLOCK, &signals, nullptr) != 0) throw system_error("sigprocmask", errno);
  const pid_t watchdog = getpid();
  const pid_t child = fork();
  if (child < 0) {
    throw ResourceError(system_error("cannot start a second process", errno).what() +
                        std::string(kProcessLimits));
  }
  if (child == 0) become(program, arguments, watchdog, signals);
  std::signal(SIGPIPE, SIG_IGN);
  return wait_for(child, signals, limits, killer);
}

}  // namespace ferry
