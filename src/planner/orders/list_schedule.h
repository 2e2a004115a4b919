// Orders by list scheduling: an idle device takes the eligible task with the least key. What a run
// time that takes "whatever is ready" would do, written down.
#pragma once

#include <vector>

#include "planner/orders/pipeline.h"

namespace ferry {

/// What an idle device prefers among ready tasks. Within a stage micro-batches go in order.
enum class ListKey {
  backward_deepest,             // backward first; deepest stage, oldest micro-batch
  backward_oldest,              // backward first; oldest micro-batch, deepest stage
  backward_deepest_shallowest,  // backward first, deepest stage; forward shallowest stage
  forward_oldest,               // forward first; oldest micro-batch, deepest stage
  gpipe,  // backward first, deepest stage, oldest; forward oldest micro-batch, shallowest stage
};

/// What happens when several tasks end at one instant. Results depend on it.
enum class Ties {
  one,  // behind each single end idle devices choose at once; ends in order of device
  all,  // all ends of the instant first, then idle devices choose in order of device
};

struct ListRule {
  ListKey key = ListKey::backward_deepest;
  Ties ties = Ties::one;
  bool forwards_first = false;  // no backward before every forward of every stage has ended
  bool warm_up = false;         // a stage's backward waits until its window has been filled once
  std::vector<int> window;      // by stage: most micro-batches in flight; empty: unlimited
};

/// The windows of asynchronous 1F1B: d + 1 at every stage; with `injection` > 0 at most so many,
/// which at the first stage bounds the whole pipeline.
std::vector<int> depth_windows(const Pipeline& pipeline, int injection = 0);

DeviceOrders list_schedule(const Pipeline& pipeline, const ListRule& rule);

}  // namespace ferry
