#include "planner/what_if.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/side_by_side.h"
#include "planner/costs/estimate.h"
#include "planner/fewer_devices.h"

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

// The first `count` of so many positions, or as many more, from the first on again.
std::vector<std::size_t> in_turn(std::size_t positions, std::size_t count) {
  std::vector<std::size_t> result(count);
  for (std::size_t i = 0; i < count; ++i) result[i] = i % positions;
  return result;
}

// Names that are free for those of them that repeat the first `known`.
template <typename T>
void name_apart(std::vector<T>& entities, std::size_t known, const std::string& name) {
  std::size_t number = known;
  for (std::size_t i = known; i < entities.size(); ++i) {
    do {
      entities[i].name = name + std::to_string(number++);
    } while (std::ranges::count(entities, entities[i].name, &T::name) > 1);
  }
}

PlanQuestion with_dram(PlanQuestion question, Bytes dram) {
  question.host_budget = question.machine.host.memory = dram;
  if (question.shared) question.shared->bytes = dram;
  return question;
}

PlanQuestion with_drives(PlanQuestion question, std::size_t count) {
  const std::vector<Drive> drives = std::exchange(question.machine.drives, {});
  for (const std::size_t d : in_turn(drives.size(), count)) {
    question.machine.drives.push_back(drives[d]);
  }
  name_apart(question.machine.drives, drives.size(), "ssd");
  return question;
}

// A further device is as one of those there, its budget too.
PlanQuestion with_device_count(const PlanQuestion& question, std::size_t count) {
  const std::size_t known = question.machine.devices.size();
  PlanQuestion changed = with_devices(question, in_turn(known, count));
  std::vector<MachineDevice>& devices = changed.machine.devices;
  name_apart(devices, known, "gpu");
  for (std::size_t d = 0; d < count; ++d) devices[d].index = static_cast<int>(d);
  return changed;
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
    changes.push_back({counted(changed, "device"), with_device_count(question, changed)});
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
