#include <array>

#include "train/step_kernel_source.h"

namespace ferry {

std::span<const std::string> step_kernel_options() {
  static const std::array<std::string, 5> options = {"--std=c++17", "--fmad=false", "--ftz=false",
                                                     "--prec-div=true", "--prec-sqrt=true"};
  return options;
}

}  // namespace ferry
