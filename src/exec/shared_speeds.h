// How fast each resource runs, given which of them run: base/fair_share.h, remembered.
//
// Resources that compete for a pool form a group; the speeds in a group depend only on which of its
// members run. A plan comes back to few such sets, and goes from one to the next in few ways: what
// a start or a stop changes is computed once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/short_vector.h"
#include "plan/plan.h"

namespace ferry {

class SharedSpeeds {
 public:
  /// Copies what it needs of the plan's pools and resources.
  explicit SharedSpeeds(const Plan& plan);

  /// Whether a pool that the resource draws on can be short; otherwise it always runs at full
  /// speed.
  bool shares(ResourceId resource) const { return seats_[resource].group.valid(); }

  /// The speed of a running resource from now on, as a fraction of full speed.
  struct Change {
    ResourceId resource;
    double speed;
  };
  /// Says that a resource draws on its pools from now on, or no longer. Returns the speeds that
  /// this changes, that of a resource that starts among them, until the next call. Requires: it
  /// shares.
  std::span<const Change> start(ResourceId resource) { return flip(resource); }
  std::span<const Change> stop(ResourceId resource) { return flip(resource); }
  void stop_all();

  /// Whether the constructor would make the same of the plan, but for what they remember.
  bool are_of(const Plan& plan) const;

 private:
  using GroupId = Id<struct GroupTag>;
  using StateId = Id<struct StateTag>;
  using Running = std::vector<std::uint64_t>;  // one bit per member
  struct RunningHash {
    std::size_t operator()(const Running& running) const;
  };
  using FlipId = Id<struct FlipTag>;
  struct Flip {
    StateId to;
    std::vector<Change> changes;
  };
  struct Way {
    std::size_t member;  // that starts or stops
    FlipId flip;
  };
  struct State {
    Running running;
    std::vector<double> speeds;  // of the members that run
    ShortVector<Way, 3> ways;    // that were gone from here
  };
  struct Group {
    std::vector<ResourceId> members;
    IdVector<StateId, State> states;
    IdVector<FlipId, Flip> flips;
    std::unordered_map<Running, StateId, RunningHash> state_of;
    StateId now;
  };
  struct Seat {
    GroupId group;
    std::size_t member = 0;  // position in Group::members
  };

  std::span<const Change> flip(ResourceId resource);
  void forget(Group& group) const;
  StateId state_of(Group& group, const Running& running) const;
  FlipId flip_of(Group& group, std::size_t member) const;
  static std::vector<Change> changes_between(const Group& group, const State& from,
                                             const State& to);
  std::vector<double> speeds_of(const Group& group, const Running& running) const;

  std::vector<double> capacities_;
  IdVector<ResourceId, std::vector<Draw>> draws_;
  IdVector<ResourceId, double> weights_;
  IdVector<ResourceId, Seat> seats_;
  IdVector<GroupId, Group> groups_;
};

}  // namespace ferry
