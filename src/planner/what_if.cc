#include "planner/what_if.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/side_by_side.h"
#include "planner/costs/estimate.h"

namespace ferry {
namespace {

std::string counted(std::size_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

struct Change {
  std::string what;
  PlanQuestion question;
};

Variation row_of(const std::string& change, const PlanQuestion& question, const Planned& planned) {
  Variation result;
  result.change = change;
  result.fits = true;
  result.strategy = planned.plan.strategy;
  result.step = planned.expected;
  const std::optional<double> tokens = tokens_of(question);
  result.positions_per_second.reset();
  if (tokens) result.positions_per_second = *tokens / result.step.seconds();
  return result;
}

Variation answer(const Change& change, const Planner& planner) {
  Variation result;
  result.change = change.what;
  try {
    const PlanAnswer found = planner(change.question);
    if (const auto* planned = std::get_if<Planned>(&found)) {
      return row_of(change.what, change.question, *planned);
    }
    const DoesNotFit& no = std::get<DoesNotFit>(found);
    result.strategy = no.place + " lacks " + to_string(no.need - no.have);
  } catch (const UserError& error) {  // a job may ask for a device that the machine has no more
    const std::string text = error.what();
    result.strategy = text.substr(0, text.find('\n'));
  }
  return result;
}

// The first `count` of `entities`, or as many more, repeating them under names that are free.
template <typename T>
std::vector<T> resized(const std::vector<T>& entities, std::size_t count, const std::string& name) {
  std::vector<T> result;
  std::size_t number = entities.size();
  const auto next_name = [&] { return name + std::to_string(number++); };
  for (std::size_t i = 0; i < count; ++i) {
    result.push_back(entities[i % entities.size()]);
    if (i < entities.size()) continue;
    std::string free = next_name();
    while (std::ranges::count(entities, free, &T::name) > 0) free = next_name();
    result.back().name = free;
  }
  return result;
}

PlanQuestion with_dram(PlanQuestion question, Bytes dram) {
  question.host_budget = question.machine.host.memory = dram;
  if (question.shared) question.shared->bytes = dram;
  return question;
}

PlanQuestion with_drives(PlanQuestion question, std::size_t count) {
  question.machine.drives = resized(question.machine.drives, count, "ssd");
  return question;
}

// A further device is as one of those there, its budget too.
PlanQuestion with_devices(PlanQuestion question, std::size_t count) {
  std::vector<Budget> budgets;
  for (std::size_t d = 0; d < count; ++d) {
    const std::size_t like = d % question.machine.devices.size();
    budgets.push_back(device_budget(question, static_cast<int>(like)));
  }
  question.device_budgets = std::move(budgets);
  question.machine.devices = resized(question.machine.devices, count, "gpu");
  for (std::size_t d = 0; d < count; ++d) {
    question.machine.devices[d].index = static_cast<int>(d);
  }
  return question;
}

std::vector<Change> changes_of(const PlanQuestion& question) {
  std::vector<Change> changes;
  const Bytes of_host = std::min(question.host_budget, question.machine.host.memory);
  const Bytes dram = question.shared ? std::min(of_host, question.shared->bytes) : of_host;
  for (const Bytes changed : {Bytes{dram.count / 2}, dram * 2}) {
    changes.push_back({to_string(changed) + " of DRAM", with_dram(question, changed)});
  }
  const std::size_t drives = question.machine.drives.size();
  for (const std::size_t changed : {drives / 2, drives * 2}) {
    if (drives == 0) continue;
    changes.push_back({counted(changed, "drive"), with_drives(question, changed)});
  }
  const std::size_t devices = question.machine.devices.size();
  for (const std::size_t changed : {devices / 2, devices * 2}) {
    if (changed == 0) continue;
    changes.push_back({counted(changed, "device"), with_devices(question, changed)});
  }
  for (const int changed : {question.micro_batches / 2, question.micro_batches * 2}) {
    if (changed == 0 || question.model.blocks.empty()) continue;
    PlanQuestion other =
        with_batch(question, changed, question.micro_batch_size, question.sequence);
    changes.push_back({"train.micro_batches: " + std::to_string(changed), std::move(other)});
  }
  return changes;
}

}  // namespace

std::vector<Variation> what_if(const PlanQuestion& question, const Planned& now,
                               const Planner& planner, PhaseListener& listener) {
  const std::vector<Change> changes = changes_of(question);
  std::vector<Variation> rows(1 + changes.size());
  rows.front() = row_of("as it is", question, now);
  std::vector<NamedWork> works;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    works.push_back({changes[i].what, [&, i] { rows[1 + i] = answer(changes[i], planner); }});
  }
  side_by_side(works, listener, "planning what if", "plans");
  return rows;
}

}  // namespace ferry
