// A CUDA driver for tests: its kernels are step_kernels.cu compiled as C++, run by the caller of
// launch_kernel. So what is handed to a kernel, and what it computes, is checked without a GPU.
#pragma once

#include <functional>

#include "device/cuda_driver.h"

namespace ferry {

/// Called before a kernel runs: makes what was enqueued before it be done.
using BeforeKernel = std::function<void()>;

/// Device 0 with compute capability 9.0. A stream is a BeforeKernel, or null. Any image loads but
/// an empty one.
CudaDriver cpu_driver();

}  // namespace ferry
