// A run's folder belongs to one process at a time: a lock on a file in it, which says who holds it.
//
// The lock is the kernel's (flock): it ends with the process that took it, however that ends, so a
// file that was left behind blocks nobody. One that is ending is waited for. Programs that the
// process starts do not share it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"

namespace ferry {

/// Another process has the folder. "runs/x is in use by process 12 on box since ...: ferry train
/// ..."
class FolderInUse : public UserError {
 public:
  using UserError::UserError;
};

class RunLock {
 public:
  /// Takes `folder`, made when missing, for this process; `command` is what others are told of it.
  /// Throws FolderInUse, UserError when `folder` is no folder, ResourceError when it cannot be made
  /// or written.
  RunLock(const std::filesystem::path& folder, const std::string& command);
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;
  /// Removes the lock's file, and the folders that were made for it when nothing else is in them.
  ~RunLock();

 private:
  void make_folders();
  bool take(const std::string& command);
  void release();

  std::filesystem::path folder_, file_;
  std::vector<std::filesystem::path> made_;  // folders, outermost first
  int descriptor_ = -1;
};

/// The lock's file in a run's folder.
inline constexpr const char* kRunLockName = "run.lock";

}  // namespace ferry
