// The arithmetic of a run: bf16 compute with an fp32 master split in two halves, or fp32
// throughout.
#pragma once

#include <string>

namespace ferry {

enum class Precision { bf16, fp32 };

inline std::string to_string(Precision precision) {
  return precision == Precision::bf16 ? "bf16" : "fp32";
}

}  // namespace ferry
