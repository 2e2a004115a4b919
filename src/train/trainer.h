// A whole training run: from a plan, a checkpoint and tokens to trained checkpoints and records.
//
// The trainer takes no planning decisions and prints nothing; it tells its observer.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "data/tokens.h"
#include "device/kernel_library.h"
#include "plan/plan.h"
#include "spec/job.h"
#include "spec/machine.h"
#include "spec/model_spec.h"
#include "train/drive_bytes.h"

namespace ferry {

struct TrainSetup {
  Job job;
  Machine machine;
  ModelSpec model;
  Plan plan;  // verified, made for this job, machine and model
  std::optional<Plan>
      evaluation;  // likewise, in evaluate mode; needed when job.train.eval_every > 0
  std::shared_ptr<TokenFile> train_tokens;
  std::shared_ptr<TokenFile> eval_tokens;  // none: held-out samples, or nothing
  std::int64_t held_out_samples =
      0;  // without eval_tokens: the last of train_tokens, never trained on
  std::optional<std::filesystem::path>
      chat_template;  // what conversations were rendered with; none: the model's own
  std::optional<std::filesystem::path> checkpoint;  // to go on from; none: a new run
  std::vector<std::string> allowed;  // names of what may be other than the checkpoint's
  Micros predicted_step;             // for the summary and the time left
  Bytes tokenising_peak;     // what a process that made the token files held of DRAM; 0: none did
  std::string environment;   // what environment.json of the run's folder says; empty: there is none
  std::string profile = {};  // the text of profile.yaml, a record; empty: none
  KernelFile kernel_file = {};  // keeps kernels of ours for GPUs
};

struct StepReport {
  int step = 0;   // steps done, counted from 1
  int steps = 0;  // of the run
  double loss = 0;
  double lr = 0;
  double grad_norm = 0;
  std::int64_t tokens = 0;   // positions that are not padding
  std::int64_t learned = 0;  // positions whose prediction is learned
  double step_seconds = 0;
  double stall = 0;  // share of the busiest device's own step in which its compute was idle
  std::map<std::string, double> stall_by;   // what it waited for; adds up to `stall`
  std::map<std::string, Bytes> peak_bytes;  // per place, measured, since the run began
  DriveBytesByPlace drive_bytes;            // moved since the step before ended, as drives counted
  double seconds_left = 0;

  /// Positions that are not padding, per second: the one rate that ferry shows of a run. 0 where no
  /// time was measured.
  double tokens_per_second() const {
    return step_seconds > 0 ? static_cast<double>(tokens) / step_seconds : 0;
  }
};

/// How a run stands, for programs that look at its folder.
enum class RunState { running, done, interrupted, failed };

struct TrainSummary {
  RunState state = RunState::running;
  std::string reason;  // of a failure
  int steps_done = 0;
  double final_loss = 0;
  std::optional<double> eval_loss;   // the last one
  Micros measured_step;              // StepTally's median
  std::optional<int> clipped_steps;  // of this run's: whose gradients were scaled; none: no limit
  std::int64_t tokens = 0;           // of this run's steps: positions that are not padding
  double tokens_per_second = 0;      // likewise; median over the same steps
  double stepping_seconds = 0;       // in this run's steps
  double seconds = 0;                // from train()'s begin to its end
  std::map<std::string, Bytes> predicted_peak, measured_peak;  // per place
  DriveBytesByPlace predicted_drive_bytes;                     // per step
  DriveBytesByPlace drive_bytes;                   // of this run's steps, as drives counted
  int steps_here = 0;                              // so many
  std::map<std::string, std::string> drive_io;     // how each place's drives are reached
  std::map<std::string, double> drive_life_steps;  // of places whose drives' endurance is known
  Bytes beside_plan;      // of the host's peak: what the process held beyond what the plan counts
  Bytes tokenising_peak;  // as in TrainSetup
  std::filesystem::path checkpoint;  // the last one written
};

/// Hears what happens; calls come one at a time, from train()'s caller or the thread that drives
/// steps while the caller waits.
class TrainObserver : public PhaseListener {
 public:
  /// All is loaded; from now on there is work to lose.
  virtual void steps_begin() {}
  /// How far the step is that is under way, in tasks.
  virtual void in_step(const Progress& /*progress*/) {}
  virtual void step(const StepReport& /*report*/) {}
  /// Something that the run survives, and its owner should know.
  virtual void warning(const std::string& /*text*/) {}
  virtual void evaluated(int /*step*/, double /*loss*/) {}
  virtual void saved(int /*step*/, const std::filesystem::path& /*folder*/) {}
  /// Asked before every step; true finishes the steps that have begun, saves what is not saved yet
  /// and returns. Asked, too, while the last save waits to be tried again: true ends the wait.
  virtual bool wants_to_stop() { return false; }
};

/// Does all that train() does before the first step, and writes nothing. Throws as train() does.
void rehearse(const TrainSetup& setup, TrainObserver& observer);

/// Runs the job, whose `train.steps` is set. Writes its inputs, log.jsonl, timeline.json,
/// summary.json and checkpoints into job.out, nothing before all that it needs is loaded. Throws
/// UserError (data, model, divergence) or ResourceError (memory, drive, device); what was saved
/// before stays as it is, and a step that fails leaves the state before it where that is whole. A
/// checkpoint that the drive refuses is tried again, and ends the run only at its end, after ten
/// minutes. Requires: this process has job.out to itself (data/run_lock.h), and a new run's has no
/// checkpoints.
TrainSummary train(const TrainSetup& setup, TrainObserver& observer);

}  // namespace ferry
