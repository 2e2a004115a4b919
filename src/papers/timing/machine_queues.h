// A machine's devices and links as queues of a timing plan: copies of one device and direction
// share its link, those of devices under one root complex the root's rate, fairly; without
// peer-to-peer, everything passes through the host.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "papers/timing/timing_plan.h"
#include "planner/planner.h"

namespace ferry {

class MachineQueues {
 public:
  /// Adds places and compute queues of every device. Must not outlive `plan` and `question`. Throws
  /// UserError when a device's link has no rate.
  MachineQueues(TimingPlan& plan, const PlanQuestion& question);

  ResourceId compute(int device) const { return devices_[device].compute; }

  /// Another queue of copies to (up) or from a device, named "gpu0.PURPOSE".
  ResourceId up(int device, const std::string& purpose);
  ResourceId down(int device, const std::string& purpose);

  /// A queue of copies that all devices under one root complex share, one at a time in plan order,
  /// named "root0.PURPOSE"; the device's own where it has no root. Asked again, the same queue.
  ResourceId root_up(int device, const std::string& purpose);
  ResourceId root_down(int device, const std::string& purpose);

 private:
  struct Direction {
    double rate = 0;
    std::vector<Draw> draws;
  };
  struct Device {
    std::string name;
    PlaceId place = -1;
    ResourceId compute = -1;
    Micros latency;
    std::optional<int> root;
    Direction up;
    Direction down;
  };

  ResourceId lane(const Device& device, const Direction& direction, const std::string& purpose);
  ResourceId shared_lane(int device, bool up, const std::string& purpose);

  TimingPlan& plan_;
  std::vector<Device> devices_;
  std::vector<std::string> root_names_;
  std::map<std::string, ResourceId> shared_;  // by name
};

}  // namespace ferry
