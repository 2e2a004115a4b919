#include "planner/strategies/strategies.h"

#include <array>

#include "planner/costs/bounds.h"
#include "planner/strategies/dispatched.h"
#include "planner/strategies/mobius.h"
#include "planner/strategies/pipeline_strategies.h"
#include "planner/strategies/resident.h"
#include "spec/strategy_names.h"

namespace ferry {

std::span<const Strategy> strategies() {
  static constexpr std::array kStrategies = {
      Strategy{strategy_name::kResident, plan_resident, resident_lower_bound},
      Strategy{strategy_name::kOneFOneB, plan_one_f_one_b, pipeline_lower_bound},
      Strategy{strategy_name::kGpipe, plan_gpipe, pipeline_lower_bound},
      Strategy{strategy_name::kInterleaved, plan_interleaved, pipeline_lower_bound},
      Strategy{strategy_name::kMixedPipe, plan_mixed_pipe, pipeline_lower_bound},
      Strategy{strategy_name::kMobius, plan_mobius, lower_bound},
      Strategy{strategy_name::kRoundPipe, plan_roundpipe, streaming_lower_bound},
      Strategy{strategy_name::kHarmonyPp, plan_harmony_pp, streaming_lower_bound,
               same_as_harmony_pp},
      Strategy{strategy_name::kFuyou, plan_fuyou, streaming_lower_bound, harmony_pp_on_one_device},
      Strategy{strategy_name::kFuyouNaive, plan_fuyou_naive, streaming_lower_bound,
               same_as_fuyou_naive},
      Strategy{strategy_name::kFuyouSerial, plan_fuyou_serial, streaming_lower_bound,
               same_as_fuyou_serial},
      Strategy{strategy_name::kHarmonyDp, plan_harmony_dp, streaming_lower_bound,
               harmony_pp_on_one_device},
      Strategy{strategy_name::kZero, plan_zero, streaming_lower_bound},
  };
  return kStrategies;
}

}  // namespace ferry
