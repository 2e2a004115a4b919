#include "planner/strategy.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>

#include "planner/bounds.h"
#include "planner/programs/fuyou_strategy.h"
#include "planner/programs/harmony.h"
#include "planner/programs/mobius_program.h"
#include "planner/programs/pipeline_programs.h"
#include "planner/programs/roundpipe_program.h"
#include "planner/programs/zero_program.h"

namespace ferry {
namespace {

constexpr std::array<const char*, 6> kPurposes = {
    "weights",     "optimizer states",   "gradient sums",
    "activations", "tokens and scalars", "kernels' workspace"};

std::size_t purpose_of(ValueKind kind) {
  switch (kind) {
    case ValueKind::weight:
      return 0;
    case ValueKind::state:
      return 1;
    case ValueKind::gradient:
      return 2;
    case ValueKind::activation:
    case ValueKind::activation_gradient:
    case ValueKind::saved:
      return 3;
    case ValueKind::tokens:
    case ValueKind::norm:
    case ValueKind::loss:
    case ValueKind::clip:
      return 4;
  }
  return 4;
}

// Which bytes belong to what: overlapping slots count once, for the first purpose in the list.
std::vector<std::pair<std::string, Bytes>> breakdown_of(const Plan& plan, PlaceId place) {
  struct Range {
    std::size_t purpose;
    std::int64_t begin;
    std::int64_t end;
  };
  std::vector<Range> ranges;
  for (const Instance& instance : plan.instances) {
    if (instance.place != place) continue;
    const Value& value = plan.values[static_cast<std::size_t>(instance.value)];
    ranges.push_back(
        {purpose_of(value.kind), instance.offset.count, instance.offset.count + value.bytes.count});
  }
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) {
    return std::tie(a.begin, a.purpose) < std::tie(b.begin, b.purpose);
  });
  std::array<Bytes, kPurposes.size()> sums;
  std::int64_t covered = 0;
  for (const Range& range : ranges) {
    const std::int64_t begin = std::max(range.begin, covered);
    if (range.end > begin) sums[range.purpose] += Bytes{range.end - begin};
    covered = std::max(covered, range.end);
  }
  sums.back() = plan.places[static_cast<std::size_t>(place)].workspace;
  std::vector<std::pair<std::string, Bytes>> result;
  for (std::size_t p = 0; p < sums.size(); ++p) {
    if (sums[p] > Bytes{}) result.emplace_back(kPurposes[p], sums[p]);
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return result;
}

}  // namespace

std::span<const Strategy> strategies() {
  static constexpr std::array kStrategies = {
      Strategy{"resident", plan_resident, nullptr, resident_lower_bound},
      Strategy{"1f1b", plan_one_f_one_b, one_f_one_b_program, pipeline_lower_bound},
      Strategy{"gpipe", plan_gpipe, gpipe_program, pipeline_lower_bound},
      Strategy{"interleaved", plan_interleaved, interleaved_program, pipeline_lower_bound},
      Strategy{"mixed-pipe", plan_mixed_pipe, nullptr, pipeline_lower_bound},
      Strategy{"mobius", plan_mobius, mobius_program, streaming_lower_bound},
      Strategy{"roundpipe", plan_roundpipe, roundpipe_program, streaming_lower_bound},
      Strategy{"harmony-pp", plan_harmony_pp, program_harmony_pp, streaming_lower_bound},
      Strategy{"fuyou", plan_fuyou, plan_fuyou_program, streaming_lower_bound},
      Strategy{"fuyou-naive", plan_fuyou_naive, plan_fuyou_naive_program, streaming_lower_bound},
      Strategy{"fuyou-serial", plan_fuyou_serial, plan_fuyou_serial_program, streaming_lower_bound},
      Strategy{"harmony-dp", plan_harmony_dp, program_harmony_dp, streaming_lower_bound},
      Strategy{"zero", plan_zero, zero_program, streaming_lower_bound},
      Strategy{"async-1f1b", nullptr, async_one_f_one_b_program, nullptr},
  };
  return kStrategies;
}

std::vector<Shortage> shortages(const Plan& plan) {
  std::vector<Shortage> result;
  for (std::size_t p = 0; p < plan.places.size(); ++p) {
    const auto id = static_cast<PlaceId>(p);
    const Place& place = plan.places[p];
    const Bytes need = peak_bytes(plan, id);
    if (need <= place.budget) continue;
    result.push_back({place.name, place.kind, need, place.budget, breakdown_of(plan, id)});
  }
  std::stable_sort(result.begin(), result.end(), [](const Shortage& a, const Shortage& b) {
    return a.need - a.have > b.need - b.have;
  });
  return result;
}

}  // namespace ferry
