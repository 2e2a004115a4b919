// Measures what a model's blocks cost on a device that is here: times, kernels' own memory, copy
// and update rates. One layer stands for all: equal blocks cost the same (Mobius section 3.2,
// "layer similarity").
#pragma once

#include <string>

#include "spec/model_spec.h"
#include "spec/precision.h"
#include "spec/profile.h"

namespace ferry {

struct MeasureRequest {
  const ModelSpec& model;
  int micro_batch_size = 1;
  int sequence = 1;
  Precision precision = Precision::fp32;
  std::string device;      // "sim:0", "cuda:0"; its memory must hold one layer, embedding and head
  int update_threads = 1;  // of the host's optimizer
};

/// Runs every distinct block forward and backward a few times, with the kernels that training uses.
/// Takes a few seconds. Throws ResourceError when the device lacks memory for one layer.
Profile measure_profile(const MeasureRequest& request);

/// The torch that kernels come from: a measurement holds for one version only.
std::string torch_version();

/// The instructions that torch's CPU kernels use here: "AVX512", "AVX2" or "DEFAULT".
std::string cpu_capability();

}  // namespace ferry
