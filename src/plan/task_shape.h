// What a task of each kind reads and writes: the table of docs/formats/plan.md.
#pragma once

#include <vector>

#include "plan/plan.h"

namespace ferry {

/// A value by name, without its bytes.
struct ValueKey {
  ValueKind kind = ValueKind::weight;
  BlockId block;
  int micro_batch = -1;

  bool operator==(const ValueKey&) const = default;
};

inline ValueKey key_of(const Value& value) { return {value.kind, value.block, value.micro_batch}; }

/// One read or write of a shape.
struct Access {
  ValueKey value;
  bool required = true;  // false: allowed
};

struct TaskShape {
  std::vector<Access> reads;
  std::vector<Access> writes;
};

/// Facts about a plan that shapes depend on. Keeps a reference: must not outlive the plan.
class Shapes {
 public:
  explicit Shapes(const Plan& plan);

  /// The shape of a load, forward, backward, clip or update task; a copy's is its own business.
  /// Fills `shape`, whose memory is reused. Requires: block and micro-batch in range for the kind.
  void fill(const Task& task, TaskShape& shape) const;

  bool has_weight(BlockId block) const { return has_weight_[block]; }
  /// True when the block adds to a gradient sum G.block: trainable, or a tied head.
  bool sums_gradient(BlockId block) const;
  /// The block whose backward is also its forward.
  bool is_fused(BlockId block) const;
  /// Forward may keep what backward would recompute: blocks that both run alone.
  bool may_save(BlockId block) const;

 private:
  void fill_forward(const Task& task, TaskShape& shape) const;
  void fill_backward(const Task& task, TaskShape& shape) const;
  void fill_clip(TaskShape& shape) const;
  void add_weights(BlockId block, bool required, TaskShape& shape) const;

  const Plan& plan_;
  IdVector<BlockId, bool> has_weight_;  // the plan has a value W.block
  std::vector<BlockId> tied_;     // heads that read another block's weights
};

}  // namespace ferry
