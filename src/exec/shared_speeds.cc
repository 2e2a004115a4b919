#include "exec/shared_speeds.h"

#include <algorithm>

#include "base/fair_share.h"

namespace ferry {
namespace {

// Sets of running resources remembered per group. A plan comes back to a few hundred; the plans
// that a search makes for eight devices and four drives, to more.
constexpr std::size_t kMostKnown = 1 << 15;

constexpr std::size_t kBits = 64;

bool runs(const std::vector<std::uint64_t>& running, std::size_t member) {
  return (running[member / kBits] >> (member % kBits) & 1) != 0;
}

// The pools that all resources together could overdraw.
IdVector<PoolId, bool> scarce_pools(const Plan& plan) {
  IdVector<PoolId, double> drawn(plan.pools.size());
  for (const Resource& resource : plan.resources) {
    for (const Draw& draw : resource.draws) drawn[draw.pool] += draw.rate;
  }
  IdVector<PoolId, bool> scarce(plan.pools.size());
  for (const PoolId p : drawn.ids()) scarce[p] = drawn[p] > plan.pools[p].capacity;
  return scarce;
}

// Copies share a link by equal bytes per second, everything else by equal speed.
IdVector<ResourceId, double> weights_of(const Plan& plan) {
  double fastest = 0;
  for (const Resource& resource : plan.resources) {
    if (resource.kind == ResourceKind::copy) fastest = std::max(fastest, resource.rate);
  }
  IdVector<ResourceId, double> weights;
  for (const Resource& resource : plan.resources) {
    weights.push_back(resource.kind == ResourceKind::copy ? fastest / resource.rate : 1.0);
  }
  return weights;
}

}  // namespace

std::size_t SharedSpeeds::RunningHash::operator()(const Running& running) const {
  std::uint64_t hash = 0;
  for (const std::uint64_t word : running) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;  // Fibonacci hashing, Knuth 6.4
    hash ^= hash >> 32;
  }
  return hash;
}

SharedSpeeds::SharedSpeeds(const Plan& plan)
    : weights_(weights_of(plan)), seats_(plan.resources.size()) {
  const IdVector<PoolId, bool> scarce = scarce_pools(plan);
  for (const Pool& pool : plan.pools) capacities_.push_back(pool.capacity);

  // Resources that share a scarce pool, directly or through others, carry one label.
  IdVector<ResourceId, ResourceId> label;  // one of those it shares with, the same for all
  IdVector<PoolId, ResourceId> label_of_pool(plan.pools.size());
  IdVector<ResourceId, bool> shares(plan.resources.size());
  for (const ResourceId r : plan.resources.ids()) label.push_back(r);
  for (const ResourceId r : plan.resources.ids()) {
    draws_.push_back(plan.resources[r].draws);
    for (const Draw& draw : plan.resources[r].draws) {
      if (!scarce[draw.pool]) continue;
      shares[r] = true;
      ResourceId& pool_label = label_of_pool[draw.pool];
      if (!pool_label.valid()) pool_label = label[r];
      const ResourceId from = pool_label;
      const ResourceId to = label[r];
      std::replace(label.begin(), label.end(), from, to);
      std::replace(label_of_pool.begin(), label_of_pool.end(), from, to);
    }
  }

  IdVector<ResourceId, GroupId> group_of_label(plan.resources.size());
  for (const ResourceId r : plan.resources.ids()) {
    if (!shares[r]) continue;
    GroupId& group = group_of_label[label[r]];
    if (!group.valid()) group = groups_.add({});
    auto& members = groups_[group].members;
    seats_[r] = {group, members.size()};
    members.push_back(r);
  }
  stop_all();
}

void SharedSpeeds::stop_all() {
  for (Group& group : groups_) {
    group.now = state_of(group, Running((group.members.size() + kBits - 1) / kBits));
  }
}

bool SharedSpeeds::are_of(const Plan& plan) const {
  return std::ranges::equal(capacities_, plan.pools, {}, {}, &Pool::capacity) &&
         std::ranges::equal(draws_, plan.resources, {}, {}, &Resource::draws) &&
         weights_ == weights_of(plan);
}

std::span<const SharedSpeeds::Change> SharedSpeeds::flip(ResourceId resource) {
  const Seat& seat = seats_[resource];
  Group& group = groups_[seat.group];
  const Flip& flip = group.flips[flip_of(group, seat.member)];
  group.now = flip.to;
  return flip.changes;
}

SharedSpeeds::FlipId SharedSpeeds::flip_of(Group& group, std::size_t member) const {
  for (const Way& way : group.states[group.now].ways) {
    if (way.member == member) return way.flip;
  }
  if (group.states.size() >= kMostKnown) forget(group);
  Running running = group.states[group.now].running;
  running[member / kBits] ^= std::uint64_t{1} << (member % kBits);
  const StateId to = state_of(group, running);
  State& from = group.states[group.now];
  const FlipId flip = group.flips.add({to, changes_between(group, from, group.states[to])});
  from.ways.push_back({member, flip});
  return flip;
}

/// All but what runs now.
void SharedSpeeds::forget(Group& group) const {
  const Running running = group.states[group.now].running;
  group.states.clear();
  group.flips.clear();
  group.state_of.clear();
  group.now = state_of(group, running);
}

SharedSpeeds::StateId SharedSpeeds::state_of(Group& group, const Running& running) const {
  const auto [known, is_new] = group.state_of.try_emplace(running, group.states.end_id());
  if (is_new) {
    group.states.push_back({running, speeds_of(group, running), {}});
  }
  return known->second;
}

std::vector<SharedSpeeds::Change> SharedSpeeds::changes_between(const Group& group,
                                                                const State& from,
                                                                const State& to) {
  std::vector<Change> changes;
  auto before = from.speeds.begin();
  auto after = to.speeds.begin();
  for (std::size_t m = 0; m < group.members.size(); ++m) {
    const double old_speed = runs(from.running, m) ? *before++ : 0;
    if (!runs(to.running, m)) continue;
    const double speed = *after++;
    if (speed != old_speed) changes.push_back({group.members[m], speed});
  }
  return changes;
}

std::vector<double> SharedSpeeds::speeds_of(const Group& group, const Running& set) const {
  std::vector<Activity> running;
  for (std::size_t m = 0; m < group.members.size(); ++m) {
    if (!runs(set, m)) continue;
    const ResourceId resource = group.members[m];
    running.push_back({weights_[resource], draws_[resource]});
  }
  std::vector<double> speeds = fair_speeds(running, capacities_);
  for (double& speed : speeds) {
    // Full speed is exactly 1, so that who has enough finishes exactly on time.
    if (speed >= 1.0 - 1e-12) speed = 1.0;
  }
  return speeds;
}

}  // namespace ferry
