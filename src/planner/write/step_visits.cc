#include "planner/write/step_visits.h"

#include <algorithm>

#include "base/check.h"
#include "planner/write/residence.h"

namespace ferry {
namespace {

std::vector<StageVisit> with_backwards_again(std::vector<StageVisit> visits, int from) {
  for (std::size_t v = 0, count = visits.size(); v < count; ++v) {
    if (visits[v].direction == Direction::forward || visits[v].end <= from) continue;
    StageVisit again = visits[v];
    again.direction = Direction::backward;
    again.first = std::max(again.first, from);
    visits.push_back(again);
  }
  return visits;
}

}  // namespace

StepVisits::StepVisits(const PlanQuestion& question, const Chain& chain,
                       const StreamSchedule& schedule)
    : question_(question),
      chain_(chain),
      norm_first_(question.norm_first && question.mode == PlanMode::train),
      again_from_(schedule.again_from),
      once_(schedule.visits.size()),
      all_(norm_first_ ? with_backwards_again(schedule.visits, schedule.again_from)
                       : schedule.visits) {}

bool StepVisits::counts_stages(const StageVisit& visit) const {
  const bool trains = question_.mode == PlanMode::train;
  return visit.first_batch == 0 && (visit.direction != Direction::forward || !trains);
}

int StepVisits::next_reader(std::size_t visit, const ValueKey& made) const {
  const bool gradient = made.kind == ValueKind::activation_gradient;
  const int b = gradient ? made.block.number() - 1 : made.block.number();
  const Direction other =
      !gradient && has_forward(chain_.blocks[b]) ? Direction::backward : Direction::forward;
  const auto rest = std::span(all_).subspan(visit);
  const auto reader = std::ranges::find_if(rest, [&](const StageVisit& each) {
    return contains(each, b) && each.direction != other && made.micro_batch >= each.first_batch &&
           made.micro_batch < each.end_batch;
  });
  FERRY_CHECK(reader != rest.end(), "what a visit makes is read by a later one");
  return reader->device;
}

std::span<const StageVisit>::iterator StepVisits::next_with_sum(std::size_t visit,
                                                                int block) const {
  const StageVisit& from = all_[visit];
  return std::ranges::find_if(behind(visit), [&](const StageVisit& later) {
    if (later.direction == Direction::forward) return false;
    return completes_sums(from)
               ? completes_sums(later) && contains(later, weight_owner(chain_, block))
               : later.first_batch == from.end_batch && contains(later, block);
  });
}

int StepVisits::last_backward_device(int block) const {
  const auto visit = std::ranges::find_if(all_, [&](const StageVisit& each) {
    return each.direction != Direction::forward && contains(each, block) && completes_sums(each);
  });
  return visit->device;
}

}  // namespace ferry
