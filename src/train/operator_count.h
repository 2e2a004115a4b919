// How many kernels a piece of code launches on a device, about.
#pragma once

namespace ferry {

/// Counts while it lives, on the thread that made it; one at a time per thread. Counted are torch's
/// operators that compute or copy, not views, allocations and what is made of other operators, and
/// launches of our own that were noted. Some operators launch several kernels, a few none.
class OperatorCount {
 public:
  OperatorCount();
  ~OperatorCount();
  OperatorCount(const OperatorCount&) = delete;
  OperatorCount& operator=(const OperatorCount&) = delete;

  long count() const;

  /// A kernel that was launched past torch.
  static void note_launch();

 private:
  unsigned long handle_;  // of torch's callback
};

}  // namespace ferry
