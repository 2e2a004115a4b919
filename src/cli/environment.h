// What a run runs on and with: environment.json of its folder.
#pragma once

#include <string>
#include <vector>

#include "spec/job.h"
#include "spec/machine.h"

namespace ferry {

/// What only torch can tell.
struct TorchFacts {
  std::string version;
  std::string cpu_capability;  // of its kernels here: "AVX512", "AVX2", "DEFAULT"
  std::vector<FoundGpu> gpus;
};

/// The text of environment.json (docs/formats/run.md).
std::string environment_json(const Job& job, const TorchFacts& torch);

}  // namespace ferry
