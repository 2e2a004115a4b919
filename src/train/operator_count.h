// How many of torch's operators a piece of code runs: about what it launches on a device.
#pragma once

namespace ferry {

/// Counts while it lives, on the thread that made it; one at a time per thread. Views and operators
/// made of others count too, so that the kernels launched are mostly fewer, and hardly ever more.
class OperatorCount {
 public:
  OperatorCount();
  ~OperatorCount();
  OperatorCount(const OperatorCount&) = delete;
  OperatorCount& operator=(const OperatorCount&) = delete;

  long count() const;

 private:
  unsigned long handle_;  // of torch's callback
};

}  // namespace ferry
