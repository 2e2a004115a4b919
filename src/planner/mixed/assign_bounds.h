// Lower bounds on every assignment of blocks to GPUs: what the printed gap of a Mixed-pipe plan is
// measured against.
#pragma once

#include <vector>

#include "planner/mixed/mixed_load.h"

namespace ferry {

/// Equal GPUs, w_1 >= w_2 >= ...: max of the mean, w_1, and for every k with k P + 1 <= n the k + 1
/// lightest of the k P + 1 heaviest, since some GPU gets k + 1 of these.
double equal_gpu_bound(std::vector<double> weights, int gpus);

/// Prices y_g >= 0 with sum 1. For any of them, the longest load of any assignment is at least
/// sum over items of min_g y_g w[b, g] (the dual of the linear relaxation of exact_assign.h).
struct GpuPrices {
  IdVector<GpuId, double> prices;
  double bound = 0;
};

/// Prices with a large bound. Exact where every GPU has a speed, w[b, g] = w[b] / speed_g: then the
/// bound is sum w / sum speed. Otherwise a fixed number of price steps towards the relaxation's
/// optimum.
GpuPrices gpu_prices(const ItemSeconds& seconds);

/// The largest of all bounds that hold for any assignment of the model's items: compute, and the
/// bytes that every step moves wherever its blocks are.
double assignment_lower_bound(const LoadModel& model);

/// objective / bound - 1; 0 when both are 0.
double gap_of(double objective, double bound);

}  // namespace ferry
