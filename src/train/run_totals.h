// What a run comes to, kept as it goes: its summary, and the peaks of its places.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <span>
#include <string>

#include "base/steady_time.h"
#include "plan/plan.h"
#include "store/own_memory.h"
#include "train/drive_meter.h"
#include "train/places.h"
#include "train/step_tally.h"
#include "train/trainer.h"

namespace ferry {

/// Not for several threads at a time.
class RunTotals {
 public:
  struct Setup {
    const TrainSetup& train;
    std::span<const Plan* const> plans;  // that the run drives, over the same places
    Places& places;
    const DriveMeter& drives;
    PeakWatch& host_memory;  // what the run holds of DRAM, without that of simulated devices
    const StepTally& tally;
  };

  /// A run begins now. All that `setup` refers to must outlive this object.
  explicit RunTotals(Setup setup);

  /// The most that each place held since the run began.
  std::map<std::string, Bytes> peaks();

  /// A step that is done; `scale`: what clipping multiplied its gradients by.
  void step(const StepReport& report, float scale);
  void evaluated(double loss) { summary_.eval_loss = loss; }

  /// The summary after `done` steps, those before a resume included; `newest`: the checkpoint that
  /// was written last, or empty. `reason`: of a failure.
  const TrainSummary& summary(int done, const std::filesystem::path& newest, RunState state,
                              const std::string& reason = {});

 private:
  const Setup setup_;
  const SteadyTime begun_ = std::chrono::steady_clock::now();
  TrainSummary summary_;
};

}  // namespace ferry
