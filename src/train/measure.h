// Measures what a model's blocks cost on a device that is here: times and kernels' own memory. One
// block stands for all that are equal (Mobius section 3.2, "layer similarity"). Beside that, what
// the device's optimizer, its tasks and its matrix products take.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/progress.h"
#include "device/kernel_library.h"
#include "spec/model_spec.h"
#include "spec/precision.h"
#include "spec/profile.h"

namespace ferry {

struct MeasureRequest {
  const ModelSpec& model;
  int micro_batch_size = 1;
  int sequence = 1;
  Precision precision = Precision::fp32;
  std::string device;           // "sim:0", "cuda:0"
  KernelFile kernel_file = {};  // keeps kernels of ours
  Bytes memory;                 // most that one block's tensors may take there
  double flops = 0;             // FLOP/s of its matrix products; 0: unknown
  Micros time{20e6};  // for all blocks together, about; a block whose turn is over runs once
  Micros longest{
      60e6};  // a block that would take more than half of what is left of it is not measured
};

/// What a block's tasks take, one micro-batch.
struct PassTimes {
  Micros forward, backward;
  Micros saving_forward, saved_backward;  // 0: it keeps nothing
};

/// A block, or why it has none.
struct MeasuredBlock {
  BlockProfile costs;  // its times: when caches hold other blocks' bytes
  PassTimes again;     // right behind the same task of another micro-batch; none is longer
  double cores = 0;    // of the host, busy while the device runs forward and backward
  bool measured = true;
  std::string remark = {};  // how, when not as a whole; or why it could not be measured
};

/// Runs forward and backward of each block of the model that is named, with the kernels that
/// training uses: several times where time allows, else once. Of a large vocabulary a part of the
/// rows is measured. The listener hears of blocks. Throws ResourceError when the device fails.
std::vector<MeasuredBlock> measure_blocks(const MeasureRequest& request,
                                          std::span<const BlockId> blocks, PhaseListener& listener);

/// What a device takes beside blocks.
struct DeviceRates {
  double update = 0;  // parameters per second of its optimizer; 0: no room to try
  Micros task;        // of starting one task
};

/// Measures updates of `parameters` at once, fewer where room is short.
DeviceRates measure_device_rates(const std::string& device, Precision precision,
                                 std::int64_t parameters, const KernelFile& kernel_file);

/// What the device's driver holds of it beside tensors, once the kernels that train have run there:
/// its context and kernels' code. 0 on sim, and where the driver does not say.
Bytes measure_beside_tensors(const std::string& device);

/// FLOP/s of matrix products; 0: no room to try.
struct ProductRates {
  double bf16 = 0;
  double fp32 = 0;
};

/// Measures the three products of a linear layer [hidden, hidden], of at most 512, for 128 rows:
/// forward, gradient of the input, gradient of the weight. A CPU may be fast in one and not in the
/// others. The best of several rounds in turns: threads that wait for each other are slow beside
/// other programs, in one precision more than in the other. Takes about a second.
ProductRates measure_products(const std::string& device, std::int64_t hidden);

/// The torch that kernels come from: a measurement holds for one version only.
std::string torch_version();

/// The instructions that torch's CPU kernels use here: "AVX512", "AVX2" or "DEFAULT".
std::string cpu_capability();

}  // namespace ferry
