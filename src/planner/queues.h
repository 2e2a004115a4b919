// A machine as a plan sees it: places, pools and in-order queues.
#pragma once

#include <vector>

#include "plan/plan.h"
#include "planner/planner.h"

namespace ferry {

struct DeviceQueues {
  PlaceId place = -1;
  ResourceId compute = -1;
  ResourceId weights_up = -1;  // W, a tied head's G, C
  ResourceId acts_up = -1;     // X, A, dA
  ResourceId down = -1;        // A, dA, G, N, L
};

struct Queues {
  std::vector<DeviceQueues> devices;
  PlaceId host = -1;
  ResourceId load = -1;
  ResourceId update = -1;  // updates and clip
};

/// Adds places, pools and resources for the machine's first `devices` devices and its host.
Queues add_queues(Plan& plan, const PlanQuestion& question, int devices);

/// What one device may use: the job's budget or the device's memory, whichever is less.
Bytes device_limit(const PlanQuestion& question, int device);
Bytes host_limit(const PlanQuestion& question);

/// Bytes per second of a copy that is alone on its link.
double upload_rate(const PlanQuestion& question, int device);
double download_rate(const PlanQuestion& question, int device);

/// What one compute task of a device takes of the host's cores; 0 for a GPU.
double compute_cores(const PlanQuestion& question, int device);

}  // namespace ferry
