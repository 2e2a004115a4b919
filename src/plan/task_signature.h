// What a task of each kind reads and writes, said once: the table of docs/formats/plan.md.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/enum_index.h"
#include "plan/plan.h"

namespace ferry {

/// A value by name, without its bytes.
struct ValueKey {
  ValueKind kind = ValueKind::weight;
  BlockId block;
  int micro_batch = -1;
  int piece = -1;

  bool operator==(const ValueKey&) const = default;
};

inline ValueKey key_of(const Value& value) {
  return {value.kind, value.block, value.micro_batch, value.piece};
}

/// What a value is to the task that reads or writes it.
enum class Part {
  weight,           // W.b of the task's own block
  tied_weight,      // W of the block whose weights a tied head reads
  state,            // S.b, or the piece of it that the task updates
  gradient,         // G.b
  tied_gradient,    // a tied head's sum, which the owner's last backward adds to its own
  tokens,           // X.m
  input,            // A.b.m
  output,           // A.(b+1).m
  output_gradient,  // dA.(b+1).m
  input_gradient,   // dA.b.m
  norm,             // N.b
  loss,             // L.m
  clip,             // C
  saved,            // K.b.m
  rounded,          // R.b
  original,         // O.b
};

inline constexpr std::size_t kParts = to_index(Part::original) + 1;

/// Which tasks of the kind take a value.
enum class When {
  always,
  not_first,  // all micro-batches but the first, which starts the sum
  last,       // the last micro-batch
  kept,       // where the plan keeps K.b.m
  at_will,    // the table has it, but no task needs it
};

struct Access {
  Part part = Part::weight;
  ValueKey value;
  When when = When::always;
};

/// In the order of the table.
struct TaskSignature {
  std::vector<Access> reads;
  std::vector<Access> writes;
};

/// A writer's habit. It means nothing, but equal questions give equal files by it.
struct Listing {
  std::span<const Part> order = {};  // of reads and of writes; parts that it lacks come last
  std::optional<Part> at_will = {};  // taken where the table leaves it to the writer
};

/// The signatures of a plan's tasks. Keeps a reference: must not outlive the plan, whose blocks and
/// values of kinds W, S, R and O must be complete.
class TaskSignatures {
 public:
  explicit TaskSignatures(const Plan& plan);

  /// All that a load, forward, backward, clip, update or redo of the task's block and micro-batch
  /// or piece may read and write; nothing for a copy, whose values are its own business. Fills
  /// `signature`, whose memory is reused. Requires: these are in range for the kind.
  void fill(const Task& task, TaskSignature& signature) const;

  using Where = std::function<InstanceId(const Access& access, bool write)>;

  /// Gives `task` what its kind, block and micro-batch read and write: `where` says where each
  /// value is, in the order of the lists, reads first. `keeps`: the plan keeps K.b.m. Without a
  /// `listing` the lists are in the order of the table.
  void write(Task& task, bool keeps, const Where& where, const Listing& listing = {});

  /// How many updates a block with weights of its own has: one per piece of S.block, or one.
  int updates(BlockId block) const { return std::max(1, pieces_[block]); }

  /// True when the block is updated ahead of the step's norm.
  bool updates_ahead(BlockId block) const { return ahead_[block]; }

  /// True when the block adds to a gradient sum G.block: trainable, or a tied head.
  bool sums_gradient(BlockId block) const;

 private:
  /// The block whose backward is also its forward.
  bool is_fused(BlockId block) const;
  /// Forward may keep what backward would recompute: blocks that both run alone.
  bool may_save(BlockId block) const;
  bool is_last(BlockId block) const { return block.index() + 1 == plan_.blocks.size(); }
  bool takes(const Task& task, bool keeps, const Access& access, const Listing& listing) const;

  void fill_forward(BlockId block, int micro_batch, TaskSignature& signature) const;
  void fill_backward(BlockId block, int micro_batch, TaskSignature& signature) const;
  void fill_clip(TaskSignature& signature) const;
  void fill_update(BlockId block, int piece, TaskSignature& signature) const;
  void fill_redo(BlockId block, TaskSignature& signature) const;
  Access sum_of(BlockId block) const;
  void add_weights(BlockId block, When when, TaskSignature& signature) const;

  const Plan& plan_;
  IdVector<BlockId, bool> has_weight_;  // the plan has a value W.block
  IdVector<BlockId, int> pieces_;       // of S.block; 0: it is whole, or the plan has none
  IdVector<BlockId, bool> rounds_;      // likewise R.block
  IdVector<BlockId, bool> ahead_;       // likewise O.block
  std::vector<BlockId> tied_;           // heads that read another block's weights
  TaskSignature written_;               // of the task in write(): its memory is reused
};

}  // namespace ferry
