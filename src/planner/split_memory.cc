#include "planner/split_memory.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "planner/costs/queues.h"

namespace ferry {
namespace {

constexpr int kHalvings = 6;  // of what the devices get: from half of the memory to a 64th

class SplitSearch {
 public:
  SplitSearch(const PlanQuestion& question, const Answerer& answer)
      : question_(question),
        answer_(answer),
        limit_(question.shared->bytes),
        simulated_(simulated_devices(question.machine)) {}

  AnswerWithoutRemedies run() {
    // All of it for everybody: no split is faster, since more memory never hurts.
    AnswerWithoutRemedies whole = answer_(within(limit_, limit_));
    auto* roomy = std::get_if<Planned>(&whole);
    if (roomy != nullptr && taken(*roomy) <= limit_) return with_shares(std::move(*roomy));
    if (auto* lacking = std::get_if<Shortage>(&whole)) {
      lacking->shared = lacking->have >= limit_ && lies_in_dram(lacking->kind, lacking->place);
      if (!lacking->shared || simulated_ == 0) return std::move(*lacking);
    }
    for (const Bytes each : shares_of_devices(roomy)) try_split(each);
    if (!best_) {  // next to nothing cannot be split: no place gets any
      return lacking_ ? std::move(*lacking_) : std::get<Shortage>(std::move(whole));
    }
    if (roomy != nullptr) best_->lower_bound = roomy->lower_bound;  // of any split
    return with_shares(std::move(*best_));
  }

 private:
  /// The question with at most so much for each simulated device and for the host.
  PlanQuestion within(Bytes device, Bytes host) const {
    PlanQuestion question = question_;
    question.shared.reset();
    question.device_budgets.clear();
    for (std::size_t d = 0; d < question.machine.devices.size(); ++d) {
      Budget budget = device_budget(question_, static_cast<int>(d));
      if (question.machine.devices[d].kind == DeviceKind::sim) {
        budget.bytes = std::min(budget.bytes, device);
      }
      question.device_budgets.push_back(std::move(budget));
    }
    question.host_budget = std::min(host_limit(question_), host);
    return question;
  }

  bool lies_in_dram(PlaceKind kind, const std::string& name) const {
    const auto& devices = question_.machine.devices;
    const auto device = std::ranges::find(devices, name, &MachineDevice::name);
    return kind == PlaceKind::host || (device != devices.end() && device->kind == DeviceKind::sim);
  }
  bool lies_in_dram(const Place& place) const { return lies_in_dram(place.kind, place.name); }

  Bytes taken(const Planned& planned) const {
    Bytes sum;
    for (const PlaceId id : planned.plan.places.ids()) {
      if (lies_in_dram(planned.plan.places[id])) sum += peak_bytes(planned, id);
    }
    return sum;
  }

  /// What the devices are offered: what the host leaves in the roomy plan, some parts of the
  /// memory, and the least with which anything fits.
  std::vector<Bytes> shares_of_devices(const Planned* roomy) const {
    std::vector<Bytes> shares;
    if (roomy != nullptr) {
      for (const PlaceId id : roomy->plan.places.ids()) {
        if (roomy->plan.places[id].kind != PlaceKind::host) continue;
        shares.push_back(Bytes{(limit_ - peak_bytes(*roomy, id)).count / simulated_});
      }
    }
    for (int halving = 1; halving <= kHalvings; ++halving) {
      shares.push_back(Bytes{(limit_.count >> halving) / simulated_});
    }
    const AnswerWithoutRemedies starved = answer_(within(1_KiB, limit_));
    const auto* lacking = std::get_if<Shortage>(&starved);
    if (lacking != nullptr && lacking->kind == PlaceKind::device) shares.push_back(lacking->need);
    return shares;
  }

  void try_split(Bytes each) {
    const Bytes host = limit_ - each * simulated_;
    if (each <= Bytes{} || host < Bytes{} || (question_.any_plan && best_)) return;
    PlanQuestion question = within(each, host);
    if (best_) question.faster_than = best_->expected;
    AnswerWithoutRemedies answer = answer_(question);
    if (auto* lacking = std::get_if<Shortage>(&answer)) return remember(*lacking, each, host);
    Planned& planned = std::get<Planned>(answer);
    if (!best_ || planned.expected < best_->expected) best_ = std::move(planned);
  }

  /// Of what lacks at several splits, the least is told, as of all places together.
  void remember(const Shortage& lacking, Bytes each, Bytes host) {
    const bool at_host = lacking.kind == PlaceKind::host;
    const Bytes lack = lacking.missing() * (at_host ? 1 : simulated_);
    if (lacking_ && lacking_->need <= limit_ + lack) return;
    Shortage all{"", PlaceKind::host, limit_ + lack, limit_, {}, true};
    for (const MachineDevice& device : question_.machine.devices) {
      if (device.kind != DeviceKind::sim) continue;
      all.place += device.name + " + ";
      all.breakdown.emplace_back(device.name, at_host ? each : lacking.need);
    }
    all.place += "host";
    all.breakdown.emplace_back("host", at_host ? lacking.need : host);
    lacking_ = std::move(all);
  }

  /// Budgets that sum up to the limit at most: what the plans take, and what is left first for
  /// devices with a budget of the job's, then for the host, then for the other devices.
  Planned with_shares(Planned planned) const {
    Bytes left = limit_ - taken(planned);
    const auto give = [&](PlaceId id, Bytes most) {
      const Bytes need = peak_bytes(planned, id);
      const Bytes more = std::clamp(left, Bytes{}, most - need);
      left -= more;
      planned.plan.places[id].budget = need + more;
      if (planned.evaluation) planned.evaluation->places[id].budget = need + more;
    };
    const auto give_devices = [&](bool with_own_budget) {
      int d = 0;
      for (const PlaceId id : planned.plan.places.ids()) {
        const Place& place = planned.plan.places[id];
        if (place.kind != PlaceKind::device) continue;
        const Bytes most = device_limit(question_, d++);
        if (lies_in_dram(place) && (most < limit_) == with_own_budget) {
          give(id, most);
        }
      }
    };
    give_devices(true);
    for (const PlaceId id : planned.plan.places.ids()) {
      if (planned.plan.places[id].kind == PlaceKind::host) give(id, host_limit(question_));
    }
    give_devices(false);
    return planned;
  }

  const PlanQuestion& question_;
  const Answerer& answer_;
  const Bytes limit_;
  const int simulated_;  // devices
  std::optional<Planned> best_;
  std::optional<Shortage> lacking_;
};

}  // namespace

AnswerWithoutRemedies answer_in_shared_memory(const PlanQuestion& question,
                                              const Answerer& answer) {
  return SplitSearch(question, answer).run();
}

}  // namespace ferry
