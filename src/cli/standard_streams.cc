#include "cli/standard_streams.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/error.h"

namespace ferry {

void open_standard_streams() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free descriptor is this one: those before it are open.
    if (open("/dev/null", O_RDWR) != descriptor) {
      throw system_error("cannot open /dev/null in place of a closed standard stream", errno);
    }
  }
}

bool output_has_no_reader() {
  pollfd output = {.fd = STDOUT_FILENO, .events = 0, .revents = 0};
  return poll(&output, 1, 0) > 0 && (output.revents & (POLLERR | POLLHUP)) != 0;
}

bool takes_a_line(int descriptor) {
  pollfd output = {.fd = descriptor, .events = POLLOUT, .revents = 0};
  return poll(&output, 1, 0) > 0;  // also where a write will fail
}

void flush_output() {
  const bool lost_before = std::ferror(stdout) != 0;
  if (std::fflush(stdout) != 0) throw system_error("cannot write to standard output", errno);
  if (lost_before) throw ResourceError("cannot write to standard output: part of it is lost");
}

}  // namespace ferry
