#include "spec/layout.h"

#include <algorithm>

namespace ferry {
BlockLayout layout_of(const BlockSpec& block) {
  BlockLayout layout;
  for (const ParamSpec& param : block.params) {
    layout.offsets.push_back(layout.elements);
    layout.elements += (param.numel() + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
  }
  return layout;
}

BlockLayout gradient_layout_of(const ModelSpec& model, const BlockSpec& block) {
  if (block.kind != BlockKind::head || !model.tied) return layout_of(block);
  const BlockSpec& owner = model.blocks[head_weight_owner(model)];
  return layout_of({.kind = BlockKind::head, .layer = -1, .params = {owner.params.front()}});
}

std::int64_t weight_element_bytes(Precision precision) {
  return precision == Precision::bf16 ? 2 : 4;
}

std::int64_t state_element_bytes(Precision precision) {
  return precision == Precision::bf16 ? 10 : 8;
}

Bytes weight_bytes(const BlockLayout& layout, Precision precision) {
  return {layout.elements * weight_element_bytes(precision)};
}

Bytes state_bytes(const BlockLayout& layout, Precision precision) {
  return {layout.elements * state_element_bytes(precision)};
}

Bytes gradient_bytes(const BlockLayout& layout) { return {layout.elements * 4}; }

Bytes rounded_bytes(const BlockLayout& layout) { return {layout.elements * 2}; }

Bytes tokens_bytes(BatchShape shape) { return 2 * 8 * Bytes{shape.tokens()}; }

Bytes device_update_workspace(const BlockLayout& layout) {
  return {std::min(layout.elements, kUpdatePieceElements) * 4 * 4};
}

}  // namespace ferry
