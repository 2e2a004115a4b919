// What becomes of the activations that a block's forward makes and its backward needs again: they
// are kept (K.b.m), they leave the device meanwhile, or backward recomputes them.
//
// Writers take policies as they take a list of stages. This pass makes the few lists that the
// strategies try on them, the simulator being the judge (docs/planner.md, "Activations").
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "planner/costs/chain.h"

namespace ferry {

enum class ActivationPolicy { keep, swap_to_host, swap_to_drive, recompute };

inline bool leaves_device(ActivationPolicy policy) {
  return policy == ActivationPolicy::swap_to_host || policy == ActivationPolicy::swap_to_drive;
}

/// Of each block; empty: every block recomputes.
using ActivationPolicies = IdVector<BlockId, ActivationPolicy>;

/// Requires: a block of the chain.
ActivationPolicy policy_of(const ActivationPolicies& policies, BlockId block);

bool saves_any(const ActivationPolicies& policies);

/// Whether the block's forward writes K.b.m, wherever that rests.
inline bool saves(const ActivationPolicies& policies, BlockId block) {
  return policy_of(policies, block) != ActivationPolicy::recompute;
}

/// The most that a forward or backward task of the block allocates beside its instances, `saves`
/// where its forward keeps what backward goes on from.
Bytes forward_workspace(const ChainBlock& block, bool saves);
Bytes backward_workspace(const ChainBlock& block, bool saves);

/// What a plan does with every block's activations: what its values and instances say.
ActivationPolicies policies_of(const Plan& plan);

/// "keep", "swap to host", "swap to drive", "recompute".
const char* to_string(ActivationPolicy policy);

/// "52 blocks keep, 30 swap to host, 17 recompute"; empty for a plan that does not train.
std::string policies_text(const Plan& plan);

/// By block: how many slots of its size keep all of a block's K on its device, one per micro-batch
/// in flight there; 0: the block recomputes, since it can do nothing else or its backward is
/// elsewhere, where nothing can go on from K.
using KeptSlots = IdVector<BlockId, int>;
KeptSlots one_slot_each(const Chain& chain);

/// Blocks that can stay, those first whose byte of device memory saves most recompute; of equals
/// the deepest, whose K is needed first.
std::vector<BlockId> by_device_density(const Chain& chain, const KeptSlots& slots,
                                       int micro_batches);

/// All blocks, the last one first.
std::vector<BlockId> deepest_first(const Chain& chain);

/// All blocks, in an order of which the first n are spread evenly over the chain, for every n: so
/// that a queue has the computation of others to hide behind.
std::vector<BlockId> spread_evenly(std::size_t blocks);

/// Where a plan's devices have room.
struct DeviceRoom {
  Bytes slots_end;
  Bytes workspace;
  Bytes budget;
};

/// Of the plan's devices, in their order.
std::vector<DeviceRoom> rooms_of(const Plan& plan);

/// On every device the longest prefix of `order` that fits beside what is there. More memory keeps
/// no block less. `device_of_block` counts as `rooms` do.
ActivationPolicies keep_what_fits(const Chain& chain, std::span<const BlockId> order,
                                  const KeptSlots& slots, std::span<const int> device_of_block,
                                  std::vector<DeviceRoom> rooms);

/// No block keeps anything; every block that can stays on the device; every block that can leaves
/// it, by one of the swapping policies.
ActivationPolicies keep_none(const Chain& chain);
ActivationPolicies keep_all(const Chain& chain, const KeptSlots& slots);
ActivationPolicies swap_all(const Chain& chain, const KeptSlots& slots, ActivationPolicy policy);

/// The lists that a streaming strategy tries: a fixed share of the blocks stays, a fixed share of
/// the rest leaves, each by density: for DRAM, or else (`to_drives`) a fixed share of it for DRAM
/// and the rest for drives. They depend on no memory, so with more of it the same lists and others
/// fit.
std::vector<ActivationPolicies> streaming_policies(const Chain& chain, const KeptSlots& slots,
                                                   int micro_batches, bool to_drives);

/// The `stay` densest blocks stay; of the others `leave` go to DRAM. More than there are means all.
ActivationPolicies stay_and_leave(const Chain& chain, const KeptSlots& slots, int micro_batches,
                                  std::size_t stay, std::size_t leave);

}  // namespace ferry
