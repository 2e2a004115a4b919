// The text of step_kernels.cu, and how it has to be compiled. Knows nothing of torch.
#pragma once

#include <span>
#include <string>

namespace ferry {

/// step_kernels.cu, word by word: written into the program by CMake.
extern const char* const kStepKernels;

/// Elements per partial sum of squares, FERRY_SQUARES there.
inline constexpr long long kSquaresPerSum = 64;

/// NVRTC's options: IEEE arithmetic as decision 2 asks for. No product and sum become one
/// operation, small numbers stay, divisions and roots are correctly rounded.
std::span<const std::string> step_kernel_options();

}  // namespace ferry
