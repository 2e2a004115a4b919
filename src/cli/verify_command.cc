#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/phase_lines.h"
#include "cli/plan_cache.h"
#include "cli/question.h"
#include "cli/stop_signals.h"
#include "cli/train_command.h"
#include "cli/verdict.h"
#include "data/manifest.h"
#include "data/model_folder.h"

namespace ferry {
namespace {

namespace fs = std::filesystem;

/// A new folder beside `out`, removed with everything in it.
class ScratchBeside {
 public:
  explicit ScratchBeside(const fs::path& out) {
    std::string name = (out / "").parent_path().string() + ".verify-XXXXXX";
    std::error_code error;
    const fs::path parent = fs::path(name).parent_path();
    if (!parent.empty()) fs::create_directories(parent, error);
    if (error || mkdtemp(name.data()) == nullptr) {
      throw system_error("cannot make a folder beside " + out.string(),
                         error ? error.value() : errno);
    }
    path_ = name;
  }
  ScratchBeside(const ScratchBeside&) = delete;
  ScratchBeside& operator=(const ScratchBeside&) = delete;
  ~ScratchBeside() {
    std::error_code ignored;  // a folder that stays says by its name what it is
    fs::remove_all(path_, ignored);
  }

  /// The folder in it for a run.
  std::string folder_for(const std::string& run) const { return (path_ / run).string(); }

 private:
  fs::path path_;
};

/// Keeps what a run's steps gave.
class Recorder final : public TrainObserver {
 public:
  Recorder(PhaseLines& phases, const StopSignals& stop) : phases_(phases), stop_(stop) {}

  void phase(const std::string& what) override { phases_.phase(what); }
  void progress(const Progress& progress) override { phases_.progress(progress); }
  void warning(const std::string& text) override { phases_.phase(text); }
  void step(const StepReport& report) override { steps.push_back(report); }
  bool wants_to_stop() override { return stop_.is_wanted(); }

  std::vector<StepReport> steps;

 private:
  PhaseLines& phases_;
  const StopSignals& stop_;
};

/// What a run of the job's first steps gave.
struct Outcome {
  std::vector<StepReport> steps;
  fs::path checkpoint;  // after the last of them
};

/// The job as `command` says, for its first `count` steps at its full learning rate: neither
/// warm-up nor schedule make them small.
void shorten(Job& job, int count) {
  job.train.steps = count;
  job.train.epochs = 0;
  job.train.save_every = job.train.eval_every = 0;
  job.train.save_minutes = 0;
  job.train.keep = 1;
  job.optim.schedule = Schedule::constant;
  job.optim.warmup_steps = 0;
  job.optim.warmup_ratio = 0;
}

bool on_cpu_alone(const Machine& machine) {
  return std::ranges::all_of(machine.devices,
                             [](const MachineDevice& one) { return one.kind == DeviceKind::sim; });
}

/// Whether the job, as the overrides change it, fits into memory, without drives.
bool fits(const VerifyCommand& command, const std::vector<std::string>& overrides,
          PhaseLines& phases) {
  Question question = read_question(command.job, overrides, phases);
  question.plan.machine.drives.clear();
  return std::holds_alternative<Planned>(plan_or_cached(question.plan, phases));
}

/// The same job without budgets: resident, or, where that does not fit, in all the memory there is.
TrainCommand in_memory(const VerifyCommand& command, const std::string& folder,
                       PhaseLines& phases) {
  TrainCommand changed;
  changed.job = command.job;
  changed.overrides = command.overrides;
  for (const char* more :
       {"budget.device=null", "budget.host=null", "budget.drive=null", "train.eval_every=0"}) {
    changed.overrides.emplace_back(more);
  }
  changed.overrides.push_back("out=" + folder);
  changed.overrides.emplace_back("strategy=resident");
  changed.without_drives = true;
  if (fits(command, changed.overrides, phases)) return changed;
  changed.overrides.back() = "strategy=auto";
  phases.phase(
      "the job does not fit a device as a whole; it is held against the plan for all memory");
  changed.without_drives = fits(command, changed.overrides, phases);
  return changed;
}

/// Trains the first steps; fewer when a signal comes.
Outcome outcome_of(TrainSetup setup, int steps, PhaseLines& phases, const StopSignals& stop) {
  shorten(setup.job, steps);
  fs::create_directories(setup.job.out);  // drives may be there
  Recorder recorder(phases, stop);
  const TrainSummary summary = train(setup, recorder);
  return {recorder.steps, summary.checkpoint};
}

/// Everything that two checkpoints hold: weights, then the optimizer's state.
std::vector<TensorDifference> compare_checkpoints(const fs::path& a, const fs::path& b) {
  auto differences = compare_tensors(open_checkpoint(a), open_checkpoint(b));
  const auto state = compare_tensors(open_checkpoint(a / kStateFolder, kOptimizerStem),
                                     open_checkpoint(b / kStateFolder, kOptimizerStem));
  differences.insert(differences.end(), state.begin(), state.end());
  return differences;
}

}  // namespace

int run_verify(const VerifyCommand& command) {
  StopSignals stop;
  // A signal ends it behind the step that runs, and the folder goes.
  stop.steps_begin(/*says_so=*/false);
  PhaseLines phases;
  const Job job = read_job(command.job, command.overrides);
  require_trainable(job);
  const ScratchBeside scratch(job.out);
  TrainCommand as_planned;
  as_planned.job = command.job;
  as_planned.overrides = command.overrides;
  as_planned.plan = command.plan;
  as_planned.overrides.emplace_back("train.eval_every=0");
  as_planned.overrides.push_back("out=" + scratch.folder_for("planned"));
  const TrainCommand whole = in_memory(command, scratch.folder_for("in-memory"), phases);

  const auto planned = prepare_training(as_planned, Start(), phases);
  if (!planned) return kDoesNotFit;
  const Outcome found = outcome_of(*planned, command.steps, phases, stop);
  const auto reference = prepare_training(whole, Start(), phases);
  if (!reference) return kDoesNotFit;
  const Outcome expected = outcome_of(*reference, command.steps, phases, stop);
  if (stop.is_wanted()) return kInterrupted;

  const Verdict verdict =
      judge(found.steps, expected.steps, compare_checkpoints(found.checkpoint, expected.checkpoint),
            on_cpu_alone(planned->machine) ? Tolerance::no_bit : Tolerance::rounding,
            planned->plan.precision);
  std::fputs(verdict.text.c_str(), stdout);
  return verdict.same ? kDone : kDiffers;
}

}  // namespace ferry
