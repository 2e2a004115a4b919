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

  /// Resources that compete with each other.
  using GroupId = Id<struct GroupTag>;

  /// The group of a resource; none when no pool it draws on can be short: then it always runs at
  /// full speed.
  GroupId group_of(ResourceId resource) const { return seats_[resource].group; }
  std::span<const ResourceId> members(GroupId group) const { return groups_[group].members; }

  /// Says that a resource draws on its pools from now on, or no longer. Requires: it has a group.
  void start(ResourceId resource) { flip(resource); }
  void stop(ResourceId resource) { flip(resource); }

  /// The speed of every member of the group, as a fraction of full speed; 0 for those that do not
  /// run. Valid until the next call.
  std::span<const double> speeds(GroupId group);

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
    GroupId group;
    std::size_t member = 0;  // position in Group::members
  };

  void flip(ResourceId resource);
  std::vector<double> computed(const Group& group) const;

  std::vector<double> capacities_;
  IdVector<ResourceId, std::vector<Draw>> draws_;
  IdVector<ResourceId, double> weights_;
  IdVector<ResourceId, Seat> seats_;
  IdVector<GroupId, Group> groups_;
};

}  // namespace ferry
