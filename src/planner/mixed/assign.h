// Assigns items (groups of blocks) to GPUs as bin packing that ignores adjacency: Mixed-pipe's
// longest-processing-time rule (FTPipe, USENIX ATC 2021) with memory, and then the exact search.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/mixed/mixed_load.h"

namespace ferry {

/// What an item is sorted by, heaviest first.
enum class LptKey { compute, memory, larger_share };

/// Puts the items one after another on the GPU with the least compute after adding, among those
/// where memory still fits; ties go to the lower index. Nothing when an item fits nowhere.
/// `order` names every item once; `budgets` has one entry per GPU.
std::optional<ItemGpus> list_assign(const LoadModel& model, const std::vector<ItemId>& order,
                                    const GpuBytes& budgets);

/// The items by decreasing key, ties by index. Compute is the least over GPUs; memory share is
/// resident bytes over all budgets; larger_share the larger of the two shares.
std::vector<ItemId> heaviest_first(const LoadModel& model, LptKey key, const GpuBytes& budgets);

/// list_assign() over heaviest_first(). On equal GPUs without memory limits at most 4/3 - 1/(3 P)
/// times the optimum (Graham).
std::optional<ItemGpus> lpt(const LoadModel& model, LptKey key, const GpuBytes& budgets);

/// The place that lacks memory.
struct MixedShortage {
  GpuId gpu;
  std::string place;  // the GPU's name
  Bytes needed;
  Bytes budget;
  bool proven = false;  // no assignment of the items fits; false: none was found

  Bytes missing() const { return needed - budget; }
};

struct AssignResult {
  ItemGpus gpu_of_item;  // empty: does not fit, see `shortage`
  double period = 0;
  Bytes step_bytes;
  double lower_bound = 0;     // of the period
  bool period_exact = false;  // no assignment has a shorter period
  bool bytes_exact = false;   // and none as short moves fewer bytes
  MixedShortage shortage;
};

/// The least period, then the least bytes: LPT by all keys, then the exact search (exact_assign.h)
/// within `nodes` when the items are few enough. `budgets` may be tighter than the machine's.
AssignResult assign(const LoadModel& model, const GpuBytes& budgets, std::int64_t nodes);

/// The machine's budgets.
GpuBytes budgets_of(const MixedMachine& machine);

}  // namespace ferry
