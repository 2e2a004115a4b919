#include "planner/strategy.h"

#include <algorithm>
#include <cstddef>
#include <functional>

#include "plan/purposes.h"
#include "planner/bounds.h"
#include "planner/programs/fuyou_strategy.h"
#include "planner/programs/harmony.h"
#include "planner/programs/mobius_program.h"
#include "planner/programs/pipeline_programs.h"
#include "planner/programs/roundpipe_program.h"
#include "planner/programs/zero_program.h"

namespace ferry {
namespace {

// The largest first.
std::vector<std::pair<std::string, Bytes>> breakdown_of(const Plan& plan, PlaceId place) {
  std::vector<std::pair<std::string, Bytes>> result;
  for (const auto& [purpose, bytes] : bytes_by_purpose(plan, place)) {
    if (bytes > Bytes{}) result.emplace_back(word(purpose), bytes);
  }
  std::ranges::stable_sort(result, std::greater(), &std::pair<std::string, Bytes>::second);
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
