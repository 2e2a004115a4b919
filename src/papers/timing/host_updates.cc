#include "papers/timing/host_updates.h"

#include <cstddef>
#include <utility>

namespace ferry {

HostUpdates::HostUpdates(TimingPlan& plan, const PlanQuestion& question)
    : plan_(plan),
      profile_(question.profile),
      rate_(profile_.update_rate > 0 ? profile_.update_rate : question.machine.host.update_rate) {
  if (rate_ > 0) worker_ = plan.worker("host.update");
}

std::optional<TaskId> HostUpdates::add(const std::string& name, int first, int end,
                                       std::vector<TaskId> after) {
  double parameters = 0;
  for (int b = first; b < end; ++b) {
    const int block = profile_.chain[static_cast<std::size_t>(b)];
    parameters += static_cast<double>(profile_.blocks[static_cast<std::size_t>(block)].parameters);
  }
  if (!worker_ || parameters <= 0) return std::nullopt;
  return plan_.add(TaskKind::update, name, *worker_, from_seconds(parameters / rate_),
                   std::move(after));
}

}  // namespace ferry
