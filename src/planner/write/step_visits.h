// The visits of a step in their order, and who goes on with what one of them makes.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "plan/task_signature.h"
#include "planner/costs/chain.h"
#include "planner/costs/question.h"
#include "planner/write/stream_schedule.h"

namespace ferry {

/// Visits by number. Where the step takes its norm first (PlanQuestion::norm_first) the schedule's
/// backwards run again behind its visits, through the blocks from StreamSchedule::again_from on.
class StepVisits {
 public:
  /// All three must outlive it.
  StepVisits(const PlanQuestion& question, const Chain& chain, const StreamSchedule& schedule);

  const std::vector<StageVisit>& all() const { return all_; }
  std::size_t count() const { return all_.size(); }
  const StageVisit& operator[](std::size_t visit) const { return all_[visit]; }
  std::span<const StageVisit> behind(std::size_t visit) const {
    return std::span(all_).subspan(visit + 1);
  }

  /// The block's backwards of the visit are for the norm alone, and will run again.
  bool is_for_norm(std::size_t visit, int block) const {
    return norm_first_ && visit < once_ && block >= again_from_;
  }
  /// Its backwards have run for the norm.
  bool is_again(std::size_t visit) const { return visit >= once_; }
  /// And the last ones do: nobody reads the gradient of what they read.
  bool ends_again(std::size_t visit) const {
    return is_again(visit) && all_[visit].first == again_from_;
  }
  /// The first of those that are again, or count().
  std::size_t first_again() const { return once_; }

  bool completes_sums(const StageVisit& visit) const {
    return visit.end_batch == question_.micro_batches;
  }
  /// It is of the pass that decides which blocks run as one: gradients pass between its stages.
  bool counts_stages(const StageVisit& visit) const;

  /// The device that reads what a visit makes for another stage: A for the next forward, dA for
  /// the backward of the block below.
  int next_reader(std::size_t visit, const ValueKey& made) const;

  /// The visit that goes on with the sum that one leaves of the block; none: all() ends.
  std::span<const StageVisit>::iterator next_with_sum(std::size_t visit, int block) const;

  /// The device on which the block's sum is completed.
  int last_backward_device(int block) const;

 private:
  const PlanQuestion& question_;
  const Chain& chain_;
  const bool norm_first_;
  const int again_from_;
  const std::size_t once_;  // visits of the schedule
  const std::vector<StageVisit> all_;
};

}  // namespace ferry
