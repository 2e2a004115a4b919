// How fast each resource runs, given which of them run: base/fair_share.h, remembered.
//
// Resources that compete for a pool form a group; the speeds in a group depend only on which of its
// members run. A plan comes back to few such sets, so each is computed once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "plan/plan.h"

namespace ferry {

class SharedSpeeds {
 public:
  /// Copies what it needs of the plan's pools and resources.
  explicit SharedSpeeds(const Plan& plan);

  static constexpr int kAlone = -1;

  /// The group of a resource, or kAlone when no pool it draws on can be short: then it always runs
  /// at full speed.
  int group_of(ResourceId resource) const { return seats_[index(resource)].group; }
  std::span<const ResourceId> members(int group) const { return groups_[index(group)].members; }

  /// Says that a resource draws on its pools from now on, or no longer. Requires: it has a group.
  void start(ResourceId resource) { flip(resource); }
  void stop(ResourceId resource) { flip(resource); }

  /// The speed of every member of the group, as a fraction of full speed; 0 for those that do not
  /// run. Valid until the next call.
  std::span<const double> speeds(int group);

 private:
  using Running = std::vector<std::uint64_t>;  // one bit per member
  struct RunningHash {
    std::size_t operator()(const Running& running) const;
  };
  struct Group {
    std::vector<ResourceId> members;
    Running running;
    std::unordered_map<Running, std::vector<double>, RunningHash> known;
  };
  struct Seat {
    int group = kAlone;
    std::size_t member = 0;  // position in Group::members
  };

  static std::size_t index(int id) { return static_cast<std::size_t>(id); }
  void flip(ResourceId resource);
  std::vector<double> computed(const Group& group) const;

  std::vector<double> capacities_;
  std::vector<std::vector<Draw>> draws_;  // by resource
  std::vector<double> weights_;           // by resource
  std::vector<Seat> seats_;               // by resource
  std::vector<Group> groups_;
};

}  // namespace ferry
