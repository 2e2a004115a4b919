// Errors by who can repair them. A plan that does not fit is a value, not an error
// (planner/planner.h); a broken invariant of our own is FERRY_CHECK (base/check.h).
#pragma once

#include <stdexcept>
#include <string>

namespace ferry {

/// The job, machine or plan file, the data or the command line is wrong. Exit code 2.
/// The text names file and line or field, what was expected, what was found, what to do.
class UserError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A key of the job does not go with the rest of the question. "plan.devices: expected ..."; where
/// the key was given is known to whoever holds the job (spec/job.h, with_origin()).
class JobKeyError : public UserError {
 public:
  JobKeyError(const std::string& key, const std::string& message)
      : UserError(key + ": " + message), key_(key) {}

  const std::string& key() const { return key_; }

 private:
  std::string key_;
};

/// The machine refused: memory, disk space, a device, a permission. Exit code 3.
/// The text names device or file, offset, errno, need and have.
class ResourceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A ResourceError for a failed system call: "WHAT: strerror(errno_value)".
ResourceError system_error(const std::string& what, int errno_value);

/// What is said where memory for anything small is refused.
inline constexpr const char* kOutOfMemory =
    "out of host memory; try a smaller budget.host or fewer programs beside";

/// Where to look when a process or a thread cannot be started, for messages.
inline constexpr const char* kProcessLimits =
    "; see the limits of processes and memory (ulimit -u, -v, -d) and of the control group "
    "(pids.max)";

}  // namespace ferry
