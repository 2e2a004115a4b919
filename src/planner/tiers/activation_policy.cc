#include "planner/tiers/activation_policy.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace ferry {
namespace {

double as_double(Bytes bytes) { return static_cast<double>(bytes.count); }

// Host memory for the first 0, 1, 2, ... of hi16 and states in the order of their value.
std::vector<Bytes> host_shares(const TierQuestion& tiers) {
  TierQuestion device_only = tiers;
  device_only.host = {};
  const TierPlacement placed = place_by_value(device_only);
  std::vector<Bytes> shares = {{}};
  bool full = false;  // so that less memory offers no share that more memory lacks
  const auto add = [&](Bytes bytes, PlaceKind place) {
    if (full || place == PlaceKind::device || bytes.count == 0) return;
    const Bytes share = shares.back() + bytes;
    full = share > tiers.host;
    if (!full) shares.push_back(share);
  };
  for (std::size_t b = 0; b < tiers.blocks.size(); ++b) {
    add(tiers.blocks[b].hi, placed.blocks[b].hi);
  }
  for (std::size_t b = 0; b < tiers.blocks.size(); ++b) {
    add(tiers.blocks[b].states, placed.blocks[b].states);
  }
  return shares;
}

// Gradients are as large as hi16 and go to where the states are.
StepCosts with_bytes(StepCosts costs, const TierQuestion& tiers, const TierPlacement& placed) {
  costs.forward_upload = costs.backward_upload = costs.backward_download = 0;
  costs.forward_read = costs.backward_read = costs.backward_written = 0;
  for (std::size_t b = 0; b < tiers.blocks.size(); ++b) {
    const double hi = as_double(tiers.blocks[b].hi);
    const double states = as_double(tiers.blocks[b].states);
    const BlockPlacement& place = placed.blocks[b];
    if (place.hi != PlaceKind::device) {
      costs.forward_upload += hi;
      costs.backward_upload += hi;
    }
    if (place.states != PlaceKind::device) costs.backward_download += hi;
    if (place.hi == PlaceKind::drive) {
      costs.forward_read += hi;
      costs.backward_read += hi;
      costs.backward_written += hi;
    }
    if (place.states == PlaceKind::drive) {
      costs.backward_read += states;
      costs.backward_written += states;
    }
  }
  return costs;
}

// Tensors that stay on the device, in swap_order() and the deepest of equals first: their memory is
// needed for the shortest time.
std::vector<bool> kept_tensors(const std::vector<SwapTensor>& tensors, double room) {
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return tensors[a].layer > tensors[b].layer;
  });
  std::vector<SwapTensor> deepest_first;
  for (const std::size_t i : order) deepest_first.push_back(tensors[i]);
  std::vector<bool> kept(tensors.size());
  for (const std::size_t i : swap_order(deepest_first)) {
    const SwapTensor& tensor = deepest_first[i];
    if (tensor.bytes > room) continue;
    room -= tensor.bytes;
    kept[order[i]] = true;
  }
  return kept;
}

struct Tensors {
  std::vector<std::size_t> indices;  // of those that are not kept
  std::vector<SwapTensor> movable;
  std::vector<bool> kept;
};

Tensors split(const std::vector<SwapTensor>& tensors, double room) {
  Tensors result;
  result.kept = kept_tensors(tensors, room);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (result.kept[i]) continue;
    result.indices.push_back(i);
    result.movable.push_back(tensors[i]);
  }
  return result;
}

// Deep layers' tensors stay in host memory: they return first, while the drives still read states.
std::vector<ActivationFate> fates_of(const std::vector<SwapTensor>& tensors, const Tensors& parts,
                                     const SwapChoice& choice) {
  std::vector<ActivationFate> fates(tensors.size(), ActivationFate::recompute);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (parts.kept[i]) fates[i] = ActivationFate::keep;
  }
  std::vector<std::size_t> swapped;
  for (const std::size_t i : choice.swapped) swapped.push_back(parts.indices[i]);
  std::sort(swapped.begin(), swapped.end(), [&](std::size_t a, std::size_t b) {
    return tensors[a].layer != tensors[b].layer ? tensors[a].layer > tensors[b].layer : a < b;
  });
  double room = choice.host_bytes;
  const double slack = 1e-9 * choice.bytes;  // sums in another order
  for (const std::size_t i : swapped) {
    room -= tensors[i].bytes;
    fates[i] = room >= -slack ? ActivationFate::swap_to_host : ActivationFate::swap_to_drive;
  }
  return fates;
}

}  // namespace

ActivationPolicy choose_activation_policy(const PolicyQuestion& question) {
  for (const BlockDemand& block : question.tiers.blocks) {
    FERRY_CHECK(block.activation.count == 0, "activations are tensors here");
  }
  ActivationPolicy best;
  SwapChoice choice;
  Tensors parts;
  bool found = false;
  for (const Bytes share : host_shares(question.tiers)) {
    TierQuestion tiers = question.tiers;
    tiers.host = share;
    TierPlacement placed = place_by_value(tiers);
    SwapProblem problem;
    problem.costs = with_bytes(question.costs, tiers, placed);
    problem.rates = {question.link_rate, tiers.read_rate, tiers.write_rate};
    problem.host_available = as_double(question.tiers.host - placed.host_used);
    Tensors left = split(question.tensors, as_double(tiers.device_spare - placed.device_used));
    problem.tensors = left.movable;
    SwapChoice here = choose_swaps(problem);
    if (found && here.time.total() > choice.time.total()) continue;
    found = true;
    choice = std::move(here);
    parts = std::move(left);
    best.states = std::move(placed);
    best.costs = problem.costs;
  }
  best.fates = fates_of(question.tensors, parts, choice);
  for (std::size_t i = 0; i < question.tensors.size(); ++i) {
    if (parts.kept[i]) best.kept_bytes += question.tensors[i].bytes;
  }
  best.host_bytes = choice.host_bytes;
  best.drive_bytes = choice.drive_bytes;
  best.recompute = choice.recompute;
  best.time = choice.time;
  return best;
}

}  // namespace ferry
