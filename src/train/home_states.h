// The weights and optimizer states where they live between steps, parameter by parameter: filled
// from a checkpoint before the first step, read for one afterwards.
//
// Works the same for homes in DRAM and on a device. Only while nothing is in flight.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "plan/plan.h"
#include "spec/layout.h"
#include "spec/model_spec.h"
#include "train/places.h"

namespace ferry {

/// What is kept per parameter: the fp32 master weight (bf16 runs: joined from its halves) and
/// Adam's two moments.
enum class StatePart { master, exp_avg, exp_avg_sq };

class HomeStates {
 public:
  /// All references must outlive this object. Requires: every trainable block of the plan has W and
  /// S at home.
  HomeStates(const ModelSpec& model, const Plan& plan, const Binding& binding);

  /// Sets one part of parameter `param` of block `block`. Requires: as many values as elements.
  void write(StatePart part, BlockId block, std::size_t param, std::span<const float> values);

  /// Reads it back, exactly. Requires: as many values as elements.
  void read(StatePart part, BlockId block, std::size_t param, std::span<float> values) const;

  /// Reads the bf16 half that devices compute with. Requires: a bf16 plan.
  void read_hi(BlockId block, std::size_t param, std::span<std::uint16_t> values) const;

 private:
  struct Home {
    InstanceId weight, state;
  };

  at::Tensor flat(InstanceId id, Bytes begin, BlockId block, std::size_t param,
                  at::ScalarType type) const;
  at::Tensor moment(StatePart part, BlockId block, std::size_t param) const;
  at::Tensor lo(BlockId block, std::size_t param) const;
  at::Tensor weight(BlockId block, std::size_t param) const;

  const ModelSpec& model_;
  const Plan& plan_;
  const Binding& binding_;
  IdVector<BlockId, Home> homes_;
  IdVector<BlockId, BlockLayout> layouts_;
};

}  // namespace ferry
