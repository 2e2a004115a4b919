#include "planner/remedies.h"

#include <algorithm>
#include <optional>

#include "planner/answer.h"
#include "planner/estimate.h"

namespace ferry {
namespace {

constexpr std::size_t kRemedies = 3;
constexpr int kShortestSequence = 16;

std::string mib_text(Bytes bytes) { return std::to_string(bytes.count >> 20) + " MiB"; }

// The limit raised to what is needed. Physical memory bounds a budget but not what one may buy, so
// the machine's memory is raised with it and the text says so.
Change more_device_memory(const PlanQuestion& question, const Shortage& lacking) {
  Change change{{}, question, {}};
  const Bytes enough = round_up(lacking.need, 1_MiB);
  bool buys = false;
  for (MachineDevice& device : change.question.machine.devices) {
    if (device.memory >= enough) continue;
    device.memory = enough;
    buys = true;
  }
  change.question.device_budget = std::max(question.device_budget, enough);
  change.text = (buys ? "devices of " : "budget.device: ") + mib_text(enough);
  change.memory = enough - lacking.have;
  return change;
}

Change more_host_memory(const PlanQuestion& question, const Shortage& lacking) {
  Change change{{}, question, {}};
  const Bytes enough = round_up(lacking.need, 1_MiB);
  const bool buys = change.question.machine.host.memory < enough;
  if (buys) change.question.machine.host.memory = enough;
  change.question.host_budget = std::max(question.host_budget, enough);
  change.text = (buys ? "a host of " : "budget.host: ") + mib_text(enough);
  change.memory = enough - lacking.have;
  return change;
}

double tokens(const PlanQuestion& question) {
  return static_cast<double>(question.micro_batches) * question.micro_batch_size *
         question.sequence;
}

struct Timed {
  Remedy remedy;
  double micros_per_token = 0;
  Bytes memory;
};

// More memory at one place may show that another lacks some too; both are then in the text.
std::optional<Timed> try_change(Change change) {
  constexpr int kPlaces = 3;
  for (int round = 0; round < kPlaces; ++round) {
    AnswerWithoutRemedies answer = answer_question(change.question);
    if (const auto* fits = std::get_if<Planned>(&answer)) {
      const Micros step = fits->prediction.step;
      return Timed{{change.text, step}, step.count / tokens(change.question), change.memory};
    }
    if (change.memory == Bytes{}) return std::nullopt;  // a change of shape that does not do
    const Shortage& lacking = std::get<Shortage>(answer);
    Change more = lacking.kind == PlaceKind::host ? more_host_memory(change.question, lacking)
                                                  : more_device_memory(change.question, lacking);
    const bool same_place = more.text.substr(0, 9) == change.text.substr(0, 9);
    more.text = same_place ? more.text : change.text + ", " + more.text;
    more.memory += change.memory;
    change = std::move(more);
  }
  return std::nullopt;
}

}  // namespace

std::vector<Change> possible_changes(const PlanQuestion& question, const Shortage& lacking) {
  std::vector<Change> changes;
  changes.push_back(lacking.kind == PlaceKind::host ? more_host_memory(question, lacking)
                                                    : more_device_memory(question, lacking));
  return changes;
}

std::vector<Remedy> find_remedies(const PlanQuestion& question, const Shortage& lacking) {
  std::vector<Timed> found;
  for (Change& change : possible_changes(question, lacking)) {
    if (auto timed = try_change(std::move(change))) found.push_back(std::move(*timed));
  }
  const int size = question.micro_batch_size;
  for (int smaller = size / 2; smaller >= 1; smaller /= 2) {  // the largest that fits
    if (size % smaller != 0) continue;
    const int count = question.micro_batches * (size / smaller);
    Change change{"train.micro_batch_size: " + std::to_string(smaller) +
                      ", train.micro_batches: " + std::to_string(count),
                  with_batch(question, count, smaller, question.sequence),
                  {}};
    if (auto timed = try_change(std::move(change))) {
      found.push_back(std::move(*timed));
      break;
    }
  }
  for (int shorter = question.sequence / 2; shorter >= kShortestSequence; shorter /= 2) {
    Change change{"data.sequence: " + std::to_string(shorter),
                  with_batch(question, question.micro_batches, size, shorter),
                  {}};
    if (auto timed = try_change(std::move(change))) {
      found.push_back(std::move(*timed));
      break;
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const Timed& a, const Timed& b) {
    if (a.micros_per_token != b.micros_per_token) return a.micros_per_token < b.micros_per_token;
    return a.memory < b.memory;
  });
  std::vector<Remedy> remedies;
  for (Timed& timed : found) {
    if (remedies.size() < kRemedies) remedies.push_back(std::move(timed.remedy));
  }
  return remedies;
}

}  // namespace ferry
