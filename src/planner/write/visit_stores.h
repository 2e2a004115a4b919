// The devices' stores, laid out for the visits of a step: what each visit needs of its device, and
// where it has it.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "planner/costs/chain.h"
#include "planner/costs/question.h"
#include "planner/write/builder.h"
#include "planner/write/device_store.h"
#include "planner/write/host_store.h"
#include "planner/write/residence.h"
#include "planner/write/step_visits.h"
#include "planner/write/stream_schedule.h"

namespace ferry {

/// What a plan is written of; all of it outlives whoever has this.
struct StreamParts {
  const PlanQuestion& question;
  const Chain& chain;
  const StreamSchedule& schedule;
  const Residence& residence;
  const StepVisits& visits;
};

class VisitStores {
 public:
  /// `host` has its homes. `inputs`: by device, what the inputs that stay or come straight take
  /// there, as far as it is known.
  VisitStores(const StreamParts& parts, PlanBuilder& builder, const HostStore& host,
              std::span<const TokenUse> token_uses, std::vector<Bytes> inputs);

  DeviceStore& operator[](int device) { return stores_[device]; }

  /// Where the visit has W.b, G.b or R.b.
  InstanceId in_visit(std::size_t visit, ValueKind kind, int block);
  /// What it needs of the region that passes.
  std::span<const ValueId> passing(std::size_t visit) const;
  /// What its stage's forward used is still there.
  bool goes_on(std::size_t visit) const { return slots_[visit].goes_on; }

  std::vector<DeviceNeed> needs() const;
  /// Of the plan that was written, as the constructor takes them.
  std::vector<Bytes> inputs() const;
  /// What passes has taken bytes that the inputs which stay need.
  bool is_crowded() const;

 private:
  struct VisitSlots {
    std::size_t number;  // of its device's visits
    bool goes_on;
  };

  void need_for_forward(const StageVisit& visit);
  void need_for_backward(const StageVisit& visit);
  void add_visits();
  void lay_out(int device, const KeptSlots& slots, std::span<const TokenUse> token_uses);
  int passing_activations() const;
  int token_slots(int in_use) const;
  std::int64_t scalars_of(int device) const;
  bool updates_any(int device) const;

  const StreamParts parts_;
  const std::vector<Bytes> inputs_;
  std::vector<DeviceStore> stores_;
  std::vector<VisitSlots> slots_;  // by visit
};

}  // namespace ferry
