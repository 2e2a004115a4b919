// How fast the optimizers of this box are: the host's and a device's.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "spec/precision.h"
#include "train/step_kernels.h"

namespace ferry {

/// Parameters per second of AdamW on `threads` threads with states of the precision's kind, the
/// median of a few steps over `parameters` of them: 16 bytes each, so that the default is beyond
/// most caches. Requires: parameters > 0, threads > 0. Throws ResourceError without the threads.
double measure_update_rate(Precision precision, int threads, std::int64_t parameters = 4 << 20);

/// The same for states that live on `device`, over as many parameters as it has room for, up to
/// `most`; with `kernels` unless null. 0 when it has room for next to none.
double measure_device_update_rate(Device& device, Precision precision, std::int64_t most = 1 << 20,
                                  const StepKernels* kernels = nullptr);

}  // namespace ferry
