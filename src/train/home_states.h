// The weights and optimizer states where they live between steps, parameter by parameter: filled
// from a checkpoint before the first step, read for one afterwards.
//
// Works the same for homes in DRAM, on devices and on drives. Only while nothing is in flight.
#pragma once

#include <span>
#include <vector>

#include "plan/plan.h"
#include "spec/layout.h"
#include "spec/model_spec.h"
#include "train/places.h"
#include "train/state_pieces.h"

namespace ferry {

/// What is kept per parameter: the fp32 master weight (bf16 runs: joined from its halves) and
/// Adam's two moments.
enum class StatePart { master, exp_avg, exp_avg_sq };

/// An element of a parameter: where a piece of it begins.
struct ParamPosition {
  BlockId block;
  std::size_t param = 0;     // of the block
  std::int64_t element = 0;  // of the parameter
};

class HomeStates {
 public:
  /// All references must outlive this object. Requires: every trainable block of the plan has W and
  /// S at home.
  HomeStates(const ModelSpec& model, const Plan& plan, const Binding& binding);

  /// Whether values are stored as bf16 and the bits that it drops.
  bool are_split() const { return plan_.precision == Precision::bf16; }

  /// W and S of the block are in DRAM.
  bool in_dram(BlockId block) const;

  /// Sets one part of consecutive elements of a parameter from `begin` on. Needs a MiB of DRAM
  /// besides, wherever the home is. Requires: the parameter has so many elements. Threads: one at a
  /// time; of what is in_dram() any, for elements of their own.
  void write(StatePart part, const ParamPosition& begin, std::span<const float> values);

  /// Sets so many elements of a moment to 0. Threads: as write().
  void clear_moment(StatePart part, const ParamPosition& begin, std::int64_t count);

  /// Reads them back, exactly; the same holds.
  void read(StatePart part, const ParamPosition& begin, std::span<float> values) const;

  /// Reads the bf16 halves that devices compute with. Requires: a bf16 plan.
  void read_hi(const ParamPosition& begin, std::span<std::uint16_t> values) const;

 private:
  struct Home {
    InstanceId weight;
    std::vector<InstanceId> states;  // S.b, or its pieces in order
  };

  /// From where on some elements lie in an instance.
  struct Range {
    InstanceId instance;
    Bytes offset;
  };

  /// What S.b has of every element.
  enum class StateArray { low, exp_avg, exp_avg_sq };
  static StateArray array_of(StatePart moment);

  // Of the block's elements, those of a parameter from `begin` on.
  ElementRange elements(const ParamPosition& begin, std::size_t count) const;
  Range weight(const ParamPosition& begin, std::size_t count) const;
  // Calls `visit(range, first, count)` for S.b, or each of its pieces, that has some of the
  // elements: `first` counts from `begin` on.
  template <typename Visit>
  void for_each_state(StateArray array, const ParamPosition& begin, std::size_t count,
                      const Visit& visit) const;
  template <typename T>
  void write_states(StateArray array, const ParamPosition& begin, std::span<const T> values);
  template <typename T>
  void read_states(StateArray array, const ParamPosition& begin, std::span<T> values) const;

  // The master of a bf16 run.
  void write_halves(const ParamPosition& begin, std::span<const float> values);
  void read_halves(const ParamPosition& begin, std::span<float> values) const;

  const ModelSpec& model_;
  const Plan& plan_;
  const Binding& binding_;
  IdVector<BlockId, Home> homes_;
  IdVector<BlockId, BlockLayout> layouts_;
  IdVector<ValueId, ElementRange> state_elements_;
};

}  // namespace ferry
