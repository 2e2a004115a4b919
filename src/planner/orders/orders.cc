#include "planner/orders/orders.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "planner/cuts/mapping.h"
#include "planner/orders/list_schedule.h"

namespace ferry {
namespace {

DeviceOrders empty_orders(const Pipeline& pipeline) { return DeviceOrders(pipeline.devices); }

// All micro-batches of a stage before the next one; stages up, then down.
DeviceOrders stage_visit(const Pipeline& pipeline) {
  DeviceOrders orders = empty_orders(pipeline);
  const auto visit = [&](bool backward, int s) {
    for (int m = 0; m < pipeline.micro_batches; ++m) {
      orders[pipeline.device[s]].push_back({backward, s, m});
    }
  };
  for (int s = 0; s < pipeline.stages(); ++s) visit(false, s);
  for (int s = pipeline.stages() - 1; s >= 0; --s) visit(true, s);
  return orders;
}

DeviceOrders sequential(const Pipeline& pipeline) {
  DeviceOrders orders = empty_orders(pipeline);
  for (int m = 0; m < pipeline.micro_batches; ++m) {
    for (int s = 0; s < pipeline.stages(); ++s) {
      orders[pipeline.device[s]].push_back({false, s, m});
    }
    for (int s = pipeline.stages() - 1; s >= 0; --s) {
      orders[pipeline.device[s]].push_back({true, s, m});
    }
  }
  return orders;
}

// One stage per device: forwards until the stage's window d + 1 is full, then backward and forward
// in turn.
DeviceOrders alternating(const Pipeline& pipeline) {
  DeviceOrders orders = empty_orders(pipeline);
  for (int s = 0; s < pipeline.stages(); ++s) {
    auto& order = orders[pipeline.device[s]];
    const int ahead = std::min(pipeline.micro_batches, pipeline.depth(s) + 1);
    for (int m = 0; m < ahead; ++m) order.push_back({false, s, m});
    for (int m = 0; m < pipeline.micro_batches; ++m) {
      order.push_back({true, s, m});
      if (m + ahead < pipeline.micro_batches) order.push_back({false, s, m + ahead});
    }
  }
  return orders;
}

DeviceOrders shortest_list(const Pipeline& pipeline, const std::vector<ListRule>& rules) {
  DeviceOrders best;
  double least = 0;
  for (const ListRule& rule : rules) {
    DeviceOrders orders = list_schedule(pipeline, rule);
    const double makespan = earliest_times(pipeline, orders).makespan;
    if (!best.empty() && makespan >= least) continue;
    best = std::move(orders);
    least = makespan;
  }
  return best;
}

DeviceOrders windowed_list(const Pipeline& pipeline, int injection, bool warm_up) {
  std::vector<ListRule> rules;
  for (const ListKey key : {ListKey::backward_deepest, ListKey::backward_oldest,
                            ListKey::backward_deepest_shallowest, ListKey::forward_oldest}) {
    for (const Ties ties : {Ties::one, Ties::all}) {
      rules.push_back({key, ties, false, warm_up, depth_windows(pipeline, injection)});
    }
  }
  return shortest_list(pipeline, rules);
}

// Rank p of P runs 2 (P - p - 1) + (v - 1) P chunk forwards, then one forward, one backward. The
// k-th chunk forward takes P micro-batches through one chunk, then the same through the next.
DeviceOrders interleaved(const Pipeline& pipeline) {
  const int devices = pipeline.devices;
  const int chunks = pipeline.stages() / devices;
  if (pipeline.device != cyclic_map(chunks * devices, devices)) {
    throw UserError(
        "an interleaved pipeline takes its devices in turn, each equally often; found " +
        std::to_string(pipeline.stages()) + " stages on " + std::to_string(devices) + " devices");
  }
  if (pipeline.micro_batches % devices != 0) {
    throw JobKeyError("train.micro_batches", "interleaved: expected a multiple of the " +
                                                 std::to_string(devices) + " devices, found " +
                                                 std::to_string(pipeline.micro_batches));
  }
  const auto chunk_task = [&](int rank, int k, bool backward) {
    const int group = k / (devices * chunks);
    const int chunk = k % (devices * chunks) / devices;
    const int stage = (backward ? chunks - 1 - chunk : chunk) * devices + rank;
    return PipelineTask{backward, stage, group * devices + k % devices};
  };
  DeviceOrders orders = empty_orders(pipeline);
  const int total = pipeline.micro_batches * chunks;
  for (int p = 0; p < devices; ++p) {
    int ahead = 2 * (devices - p - 1) + (chunks - 1) * devices;
    if (pipeline.micro_batches == devices) ahead = total;
    ahead = std::min(ahead, total);
    for (int k = 0; k < ahead; ++k) orders[p].push_back(chunk_task(p, k, false));
    for (int k = 0; k < total; ++k) {
      if (ahead + k < total) orders[p].push_back(chunk_task(p, ahead + k, false));
      orders[p].push_back(chunk_task(p, k, true));
    }
  }
  return orders;
}

}  // namespace

DeviceOrders order_of(OrderRule rule, const Pipeline& pipeline, const OrderOptions& options) {
  const bool simple = one_stage_per_device(pipeline);
  switch (rule) {
    case OrderRule::gpipe:
      if (simple) return stage_visit(pipeline);
      return list_schedule(pipeline, {ListKey::gpipe, Ties::one, true, false, {}});
    case OrderRule::one_f_one_b:
      return simple ? alternating(pipeline) : windowed_list(pipeline, 0, false);
    case OrderRule::async_one_f_one_b:
      if (simple && (options.window == 0 || options.window >= pipeline.stages())) {
        return alternating(pipeline);
      }
      return windowed_list(pipeline, options.window, false);
    case OrderRule::pipedream:
      return windowed_list(pipeline, options.window, true);
    case OrderRule::interleaved:
      return interleaved(pipeline);
    case OrderRule::stage_visit:
      return stage_visit(pipeline);
    case OrderRule::sequential:
      return sequential(pipeline);
  }
  FERRY_UNREACHABLE("an order rule");
}

}  // namespace ferry
