// Which way a stage goes through its blocks.
#pragma once

namespace ferry {

enum class Direction { both, forward, backward, fused };  // fused: each micro-batch there and back

inline const char* to_string(Direction direction) {
  constexpr const char* kWords[] = {"both", "forward", "backward", "fused"};
  return kWords[static_cast<int>(direction)];
}

}  // namespace ferry
