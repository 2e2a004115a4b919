// What a simulated plan makes of its machine: idle time, shared rates, transfers, drives. Computed
// on demand, so that simulate() stays as fast as it is. "Per step" is of the last simulated step's
// tasks, set against Simulation::step, the steady state.
#pragma once

#include <optional>
#include <vector>

#include "exec/simulator.h"
#include "plan/plan.h"

namespace ferry {

/// How idle a compute queue is.
struct Bubble {
  ResourceId resource;
  double of_step = 0;  // 1 - busy / step, 1 without tasks; never below 0
  double of_span = 0;  // idle share from the start of its first task to the end of its last
};

/// One per compute resource, in the plan's order.
std::vector<Bubble> bubbles(const Plan& plan, const Simulation& simulation);

/// The mean of Bubble::of_step; 0 without compute resources.
double mean_bubble(const std::vector<Bubble>& bubbles);

struct PoolUse {
  double utilisation = 0;  // what its tasks draw / (capacity x step)
  Bytes bytes;             // moved per step by the copies that draw on it
};

/// One per Plan::pools.
IdVector<PoolId, PoolUse> pool_use(const Plan& plan, const Simulation& simulation);

/// How fast bytes were moved. A copy's bandwidth is bytes / (end - start), its latency and its
/// waiting for shared links included; at most its resource's rate. Bandwidths are rounded to six
/// digits, so that those which differ by rounding only are one point.
struct BandwidthCdf {
  struct Point {
    double bytes_per_second = 0;
    Bytes bytes;  // moved at this bandwidth or a lower one
  };
  std::vector<Point> points;  // ascending in both

  /// All bytes moved.
  Bytes total() const { return points.empty() ? Bytes{} : points.back().bytes; }
  /// Moved faster than `bytes_per_second`, and their share of all; 0 when nothing moves.
  Bytes bytes_above(double bytes_per_second) const;
  double share_above(double bytes_per_second) const;
  /// The lowest bandwidth at or below which this share of the bytes moves; 0 when nothing moves.
  double quantile(double share) const;
};

/// Of one step's copies, every hop of a staged one counted.
BandwidthCdf bandwidth_cdf(const Plan& plan, const Simulation& simulation);

/// At most `count` points of `cdf`, spread evenly over its bytes, the last always among them: for
/// drawing and printing. Requires: count > 0.
std::vector<BandwidthCdf::Point> thinned(const BandwidthCdf& cdf, std::size_t count);

/// Bytes that a step reads from and writes to a drive: in whole pages (kDrivePage), or as many as
/// the copies of a plan that only tells time have.
struct DriveUse {
  PlaceId place;
  Bytes read;
  Bytes written;
};

/// One per place that is a drive, in the plan's order.
std::vector<DriveUse> drive_use(const Plan& plan);

/// How many whole such steps a drive lasts that may be written `endurance` bytes in its life;
/// nothing where that is unknown, or a step writes nothing.
std::optional<double> drive_life_steps(const DriveUse& use, std::optional<Bytes> endurance);

}  // namespace ferry
