#include "cli/stop_signals.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <string_view>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/standard_streams.h"

namespace ferry {
namespace {

constexpr std::int64_t kSameStop = 1'000'000'000;  // ns in which further signals are the same wish

// What the handler knows; it may run on any thread, on several at once.
std::atomic<bool> steps_have_begun{false};
std::atomic<bool> first_is_said{false};
std::atomic<int> first_signal{0};
std::atomic<std::int64_t> first_time{0};  // ns
static_assert(std::atomic<std::int64_t>::is_always_lock_free &&
              std::atomic<bool>::is_always_lock_free);

std::int64_t now() {
  timespec time = {};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * std::int64_t{1'000'000'000} + time.tv_nsec;
}

std::string_view name_of(int signal) {
  switch (signal) {
    case SIGINT:
      return "SIGINT";
    case SIGTERM:
      return "SIGTERM";
    case SIGHUP:
      return "SIGHUP";
    default:
      return "SIGQUIT";
  }
}

/// Whatever comes of it: the terminal may be gone.
void say(std::string_view text) {
  if (!takes_a_line(STDERR_FILENO)) return;
  [[maybe_unused]] const ssize_t put = write(STDERR_FILENO, text.data(), text.size());
}

extern "C" void on_stop_signal(int signal) {
  if (!steps_have_begun) _exit(kInterrupted);
  int none = 0;
  if (first_signal.compare_exchange_strong(none, signal)) {
    const int error = errno;
    first_time = now();
    if (first_is_said) {
      if (isatty(STDERR_FILENO) != 0) say("\r\033[K");  // a line may be drawn there
      say(name_of(signal));
      say(": finishing the steps that have begun, then saving; once more ends without saving\n");
    }
    errno = error;
  } else if (signal != SIGHUP && first_time != 0 && now() - first_time > kSameStop) {
    _exit(kInterrupted);
  }
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  if (sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN) return;
  action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  if (sigaction(signal, &action, nullptr) != 0) throw system_error("cannot handle a signal", errno);
}

}  // namespace

StopSignals::StopSignals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) handle(signal, on_stop_signal);
  handle(SIGPIPE, SIG_IGN);
}

void StopSignals::steps_begin(bool says_so) {
  first_is_said = says_so;
  steps_have_begun = true;
}

bool StopSignals::is_wanted() const { return first_signal != 0 || output_has_no_reader(); }

}  // namespace ferry
