#include "train/trainer.h"

#include <c10/util/Exception.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "base/error.h"
#include "base/steady_time.h"
#include "base/version.h"
#include "data/batches.h"
#include "data/checksum.h"
#include "data/files.h"
#include "data/held_folder.h"
#include "data/tokens.h"
#include "device/memory_limit.h"
#include "exec/driver.h"
#include "report/chrome_trace.h"
#include "spec/nearest.h"
#include "store/own_memory.h"
#include "train/checkpoints.h"
#include "train/collapse.h"
#include "train/devices.h"
#include "train/divergence.h"
#include "train/drive_meter.h"
#include "train/driving_thread.h"
#include "train/evaluation.h"
#include "train/home_states.h"
#include "train/job_rows.h"
#include "train/measure.h"
#include "train/peer_check.h"
#include "train/places.h"
#include "train/records.h"
#include "train/run_folder.h"
#include "train/run_question.h"
#include "train/run_totals.h"
#include "train/saving.h"
#include "train/schedule.h"
#include "train/step_runner.h"
#include "train/step_tally.h"

namespace ferry {
namespace {

/// "a1b2c3d4e5f60718, 100 rows": what is in a token file, whatever it was made from.
std::string rows_text(const TokenFile& file) {
  return to_hexadecimal(file.contents_hash()) + ", " + std::to_string(file.size()) + " rows";
}

/// "2": the threads of the simulated devices' kernels.
std::string threads_text(const Machine& machine) {
  std::vector<std::string> counts;
  for (const MachineDevice& device : machine.devices) {
    if (device.kind != DeviceKind::sim) continue;
    const std::string count = std::to_string(device.threads);
    if (std::ranges::find(counts, count) == counts.end()) counts.push_back(count);
  }
  return counts.empty() ? "of the GPU" : joined(counts);
}

/// All that the numbers of this run depend on.
RunQuestion question_of(const TrainSetup& setup) {
  const std::string evaluated = setup.eval_tokens ? rows_text(*setup.eval_tokens) : "none";
  return run_question(setup.job, setup.model,
                      {.train_rows = rows_text(*setup.train_tokens),
                       .eval_rows = evaluated,
                       .held_out = std::to_string(setup.held_out_samples) + " rows",
                       .precision = to_string(setup.plan.precision),
                       .threads = threads_text(setup.machine),
                       .processor = processors_of(setup.machine),
                       .torch = torch_version(),
                       .ferry = std::string(version())});
}

/// What the process holds before it takes any memory for the run. What earlier work has freed goes
/// back to the system first: the run would use it again, unseen.
Bytes held_before() {
  malloc_trim(0);
  return own_memory(getpid());
}

/// One run: what train() holds on to between steps. Members are declared in the order in which they
/// are taken, so that devices close last.
class Run final : public Observer {
 public:
  Run(const TrainSetup& setup, TrainObserver& observer);

  TrainSummary execute();
  /// Fills the memory that the run has taken: with the model, or with the checkpoint.
  void restore();

  bool wants_step(int step) override;
  void finished(TaskRun run) override;
  void step_finished(int step) override;

 private:
  StepNumbers make_numbers(int step);
  void begin();
  void run_steps_or_save();
  void run_steps();
  bool evaluation_is_due(int done) const;
  bool tokens_have_changed();
  void evaluate();
  void tell_trouble_of_log();
  void end_log();
  double seconds_left() const;
  void watch_for_collapse(const StepReport& report);
  std::string after_divergence(const Diverged& error);
  std::string save_what_is_whole();
  void limit_devices();
  void require_folder() const;
  CheckpointContents contents(int done);
  void end_with_trouble() const;
  TrainSummary write_end(RunState state, const std::string& reason = {});

  const TrainSetup& setup_;
  TrainObserver& observer_;
  const Job& job_;
  const Bytes held_before_;
  OpenDevices devices_;
  PeakWatch host_memory_;  // what the run holds of DRAM, without that of simulated devices
  TokenFile& tokens_;
  Batches batches_;
  std::vector<const Plan*> plans_;
  Places places_;
  DriveMeter drives_;
  StepTally tally_;
  RunTotals totals_;
  StepRunner runner_;
  HomeStates states_;
  std::optional<Evaluation> evaluation_;
  SavedSteps saved_;
  std::optional<HeldFolder> folder_;  // job.out, from begin() on
  RunQuestion question_;
  std::optional<ModelFiles> model_files_;
  std::optional<StepLog> log_;
  std::optional<Saving> saving_;
  CollapseWatch collapse_;

  int done_ = 0;
  int evaluated_ = 0;              // steps done when it was evaluated last, by an earlier run too
  double evaluation_seconds_ = 0;  // that the last one of this run took
  bool evaluating_ = false;        // now
  bool stop_asked_ = false;        // and a step was not begun for it
  std::string trouble_;            // why the run stops; empty: no trouble
  SteadyTime last_finish_;
  std::array<int, 2> finished_tasks_{};  // of the steps in flight, by parity
};

std::vector<const Plan*> plans_of(const TrainSetup& setup) {
  std::vector<const Plan*> plans = {&setup.plan};
  if (setup.evaluation) plans.push_back(&*setup.evaluation);
  return plans;
}

// What the plans may take of each device; the machine's memory of one that they leave alone.
std::vector<Bytes> device_caps(const TrainSetup& setup) {
  std::vector<Bytes> caps;
  for (const MachineDevice& device : setup.machine.devices) {
    std::optional<Bytes> cap;
    for (const Plan* plan : plans_of(setup)) {
      for (const Place& place : plan->places) {
        if (place.name == device.name) cap = std::max(cap.value_or(Bytes{}), place.budget);
      }
    }
    caps.push_back(cap.value_or(device.memory));
  }
  return caps;
}

Run::Run(const TrainSetup& setup, TrainObserver& observer)
    : setup_(setup),
      observer_(observer),
      job_(setup.job),
      held_before_(held_before()),
      devices_(setup.machine, {.memory = device_caps(setup), .threads = setup.job.threads}),
      host_memory_([this] {
        // What a device gives back between two looks must not count as ours.
        const Bytes on_devices = devices_.host_memory();
        const Bytes held = own_memory(getpid()) - held_before_;
        return held - std::max(on_devices, devices_.host_memory());
      }),
      tokens_(*setup.train_tokens),
      batches_(tokens_, training_rows(setup.job, tokens_, setup.held_out_samples)),
      plans_(plans_of(setup)),
      places_(plans_, devices_.names(), setup.machine, observer, {}, setup.kernel_file),
      drives_(places_),
      tally_(setup.plan),
      totals_({.train = setup,
               .plans = plans_,
               .places = places_,
               .drives = drives_,
               .host_memory = host_memory_,
               .tally = tally_}),
      runner_({.model = setup.model,
               .plan = setup.plan,
               .places = places_,
               .clip = setup.job.optim.clip,
               .update_threads = setup.machine.host.cores,
               .feed = [this](int step) { return make_numbers(step); }}),
      states_(setup.model, setup.plan, runner_.binding()),
      saved_(checkpoints_in(setup.job.out), setup.job.train.keep,
             std::filesystem::path(setup.job.out) / "model"),
      collapse_(setup.model.vocab) {
  tokens_.require_vocabulary(setup.model.vocab);
  question_ = question_of(setup);
  if (setup.evaluation) evaluation_.emplace(setup, places_);
  limit_devices();
  check_peers(plans_, places_);
}

/// No kernel may take more beside the slots than the plan left for it, and for what CUDA loads.
void Run::limit_devices() {
  std::map<std::string, MemoryLimit> limits;  // of accelerators
  for (const PlaceId id : places_.ids()) {
    const auto& device = places_[id].device;
    if (!device) continue;
    const auto [limit, is_new] =
        limits.try_emplace(device->name(), MemoryLimit{*device, 0_B - device->context()});
    Bytes budget;
    for (const Plan* plan : plans_) budget = std::max(budget, plan->places[id].budget);
    limit->second.most += budget;
  }
  std::vector<MemoryLimit> all;
  for (const auto& [name, limit] : limits) all.push_back(limit);
  if (const std::string loose = limit_memory(all); !loose.empty()) observer_.phase(loose);
}

StepNumbers Run::make_numbers(int step) {
  StepNumbers numbers{.step = step,
                      .batches = {},
                      .learned = batches_.learned_in_step(step),
                      .loss_scale = 0,
                      .adamw = {.lr = learning_rate(job_.optim, step, job_.train.steps),
                                .beta1 = job_.optim.betas[0],
                                .beta2 = job_.optim.betas[1],
                                .eps = job_.optim.eps,
                                .weight_decay = job_.optim.weight_decay,
                                .step = step + 1}};
  if (numbers.learned > 0) numbers.loss_scale = 1.0 / static_cast<double>(numbers.learned);
  for (int m = 0; m < job_.train.micro_batches; ++m) {
    numbers.batches.push_back(batches_.batch(step, m));
  }
  return numbers;
}

void Run::restore() {
  if (!setup_.checkpoint) {
    load_pretrained(setup_.model, job_.model, setup_.machine.host.cores, states_, observer_);
    return;
  }
  const std::filesystem::path& checkpoint = *setup_.checkpoint;
  observer_.phase("resuming from " + checkpoint.string());
  const Manifest manifest = read_manifest(checkpoint);
  for (const Change& change :
       changes_since(manifest.question, question_, setup_.allowed, checkpoint)) {
    observer_.phase("changed since step " + std::to_string(manifest.step) + ": " + to_text(change));
  }
  try {
    load_checkpoint(setup_.model, checkpoint, setup_.machine.host.cores, states_, observer_);
  } catch (const UserError& error) {
    throw with_older_checkpoint(error, job_.out, manifest.step);
  }
  done_ = static_cast<int>(manifest.step);
  batches_.go_on(manifest.step, manifest.sequences);
}

// From here on the folder is the run's: all that could be refused was loaded and checked.
void Run::begin() {
  const std::filesystem::path out = job_.out;
  std::filesystem::create_directories(out);
  folder_.emplace(out);
  require_space(setup_.model, job_, done_);
  saved_.remove_unfinished(observer_);
  if (const auto aside = saved_.set_later_aside(done_, observer_); !aside.empty()) {
    observer_.phase("checkpoints of later steps are set aside until the first save: " +
                    aside.front().string() + (aside.size() > 1 ? " and others" : ""));
  }
  model_files_.emplace(job_.model, setup_.chat_template);
  write_inputs(out, setup_);
  log_.emplace(out / "log.jsonl", done_);
  for (const auto& [step, loss, norm] : log_->earlier().learned) collapse_.step(step, loss, norm);
  collapse_.tell_again();
  evaluated_ = log_->earlier().evaluated;
}

/// What is done is saved.
void Run::end_with_trouble() const {
  const std::filesystem::path& newest = saving_->newest();
  throw ResourceError(trouble_ + "\n  " +
                      (newest.empty() ? "no checkpoint was saved"
                                      : newest.string() + " is saved: go on with --resume"));
}

TrainSummary Run::execute() {
  restore();
  begin();
  saving_.emplace(Saving::Setup{.rules = {job_.train.save_every, job_.train.save_minutes},
                                .at_end = job_.train.save_last,
                                .contents = [this](int done) { return contents(done); },
                                .lack = [this] { return lack_of_space(setup_.model, job_); },
                                .saved = saved_,
                                .observer = observer_},
                  done_, setup_.checkpoint.value_or(std::filesystem::path()));
  write_summary(std::filesystem::path(job_.out) / "summary.json",
                totals_.summary(done_, saving_->newest(), RunState::running),
                setup_.predicted_step);
  observer_.steps_begin();
  try {
    run_steps_or_save();
    saving_->save_the_rest(done_, collapse_.last_good());
    if (!trouble_.empty()) end_with_trouble();
  } catch (const std::exception& error) {
    write_end(RunState::failed, words_of(error));
    throw;
  }
  return write_end(stop_asked_ ? RunState::interrupted : RunState::done);
}

/// A step that fails for whatever reason leaves the state before it, where that is whole, in a
/// checkpoint.
void Run::run_steps_or_save() {
  try {
    run_steps();
  } catch (const Diverged& error) {
    throw UserError(after_divergence(error));
  } catch (const UserError&) {
    throw;
  } catch (const std::exception& error) {
    throw ResourceError(words_of(error) + "\n  " + save_what_is_whole());
  }
}

void Run::run_steps() {
  last_finish_ = std::chrono::steady_clock::now();
  drives_.restart();
  while (done_ < job_.train.steps && !stop_asked_) {
    tally_.drive_begins(done_);
    on_driving_thread(runner_.gives_way(), [&] {
      drive(setup_.plan, {done_, job_.train.steps - done_}, runner_, *this);
    });
    if (stop_asked_) return;
    if (saving_->is_due(done_)) saving_->try_to_save(done_, collapse_.last_good());
    if (evaluation_is_due(done_)) evaluate();
    last_finish_ = std::chrono::steady_clock::now();
    drives_.restart();
  }
}

/// Between steps, with nothing in flight, is the time for everything else.
bool Run::wants_step(int step) {
  stop_asked_ = tokens_have_changed() || observer_.wants_to_stop();
  return !stop_asked_ && !evaluation_is_due(step) && !saving_->is_due(step);
}

bool Run::tokens_have_changed() {
  for (TokenFile* file : {&tokens_, evaluation_ ? setup_.eval_tokens.get() : nullptr}) {
    if (file == nullptr || !file->has_changed()) continue;
    trouble_ = file->path().string() + ": was changed while the run read from it";
  }
  return !trouble_.empty();
}

bool Run::evaluation_is_due(int done) const {
  return evaluation_ && job_.train.eval_every > 0 && done > evaluated_ &&
         done % job_.train.eval_every == 0;
}

void Run::finished(TaskRun run) {
  const auto tasks = std::ssize(setup_.plan.tasks);
  const int finished = ++finished_tasks_[run.step % 2];
  if (run.step == done_) {
    observer_.in_step({"step " + std::to_string(done_ + 1), finished, tasks, "tasks"});
  }
}

void Run::step_finished(int step) {
  const auto now = std::chrono::steady_clock::now();
  const Micros time = between(last_finish_, now);
  last_finish_ = now;
  done_ = step + 1;
  finished_tasks_[step % 2] = 0;

  const StepNumbers& numbers = runner_.numbers(step);
  std::int64_t tokens = 0;
  for (const Batch& batch : numbers.batches) tokens += batch.tokens;
  tally_.add(step, time, tokens, runner_.take_spans());
  const Stall stall = tally_.last_stall();
  const StepResult result = runner_.result(step);
  StepReport report{.step = done_,
                    .steps = job_.train.steps,
                    .loss = result.loss,
                    .lr = numbers.adamw.lr,
                    .grad_norm = result.grad_norm,
                    .tokens = tokens,
                    .learned = numbers.learned,
                    .step_seconds = time.seconds(),
                    .stall = stall.total,
                    .stall_by = {{"copies", stall.copies},
                                 {"drives", stall.drives},
                                 {"host", stall.host},
                                 {"devices", stall.devices},
                                 {"other", stall.other}},
                    .peak_bytes = totals_.peaks(),
                    .drive_bytes = drives_.take(),
                    .seconds_left = seconds_left()};
  totals_.step(report, result.scale);
  log_->step(report);
  tell_trouble_of_log();
  observer_.step(report);
  watch_for_collapse(report);
}

void Run::tell_trouble_of_log() {
  if (const auto trouble = log_->new_trouble()) observer_.warning(*trouble);
}

/// The last chance of lines that the drive has not taken.
void Run::end_log() {
  log_->sync();
  tell_trouble_of_log();
  if (log_->is_whole()) return;
  observer_.warning(job_.out + "/log.jsonl: its last lines are lost: the drive did not take them");
}

/// Of steps as they were so far, and of evaluations once one was made.
double Run::seconds_left() const {
  const int steps = job_.train.steps;
  double seconds = (tally_.median_step() * (steps - done_)).seconds();
  if (evaluation_ && job_.train.eval_every > 0) {
    const int every = job_.train.eval_every;
    const int evaluated = evaluation_is_due(done_) ? done_ - 1 : done_;
    seconds += evaluation_seconds_ * (steps / every - evaluated / every);
  }
  return seconds;
}

void Run::watch_for_collapse(const StepReport& report) {
  if (report.learned == 0) return;
  collapse_.step(report.step, report.loss, report.grad_norm);
  const auto good = collapse_.last_good();
  if (good && folder_->is_in_place()) saving_->learned_from(*good);
  if (!collapse_.has_just_collapsed()) return;
  observer_.warning("step " + std::to_string(report.step) + ": " +
                    collapse_.words(report.loss, report.grad_norm));
}

void Run::evaluate() {
  const SteadyTime begun = std::chrono::steady_clock::now();
  evaluating_ = true;
  // Behind the last step it is made: a run that goes on would find nothing to do.
  const bool may_stop = done_ < job_.train.steps;
  const std::optional<double> loss = evaluation_->loss(observer_, [this, may_stop] {
    return tokens_have_changed() || (may_stop && observer_.wants_to_stop());
  });
  evaluating_ = false;
  runner_.disturbed(done_);
  if (!loss) {  // resumed, the run begins with it
    stop_asked_ = true;
    return;
  }
  evaluation_seconds_ = since(begun).seconds();
  evaluated_ = done_;
  totals_.evaluated(*loss);
  log_->evaluated(done_, *loss);
  tell_trouble_of_log();
  observer_.evaluated(done_, *loss);
}

/// Nothing is written into another run's folder.
void Run::require_folder() const {
  if (folder_->is_in_place()) return;
  throw ResourceError(job_.out + ": the folder in which the run began is not there any more: it " +
                      "was moved, removed or replaced\n  try: put it back while the run goes on");
}

/// The lines of the steps until then are durable before the state is.
CheckpointContents Run::contents(int done) {
  log_->sync();
  tell_trouble_of_log();
  require_folder();
  return {.model = setup_.model,
          .states = states_,
          .precision = setup_.plan.precision,
          .model_files = *model_files_,
          .manifest = {.step = done,
                       .sequences = batches_.first_sequence(done),
                       .question = question_,
                       .versions = {{"ferry", std::string(version())}},
                       .files = {}}};
}

/// What is told of a step that diverged.
std::string Run::after_divergence(const Diverged& error) {
  std::string text;
  if (evaluating_) {
    text = "evaluation after step " + std::to_string(done_) + ": " + error.what();
  } else {
    text = "step " + std::to_string(error.step() + 1) + ": " + error.what() + "\n  " +
           rows_text(batches_, error);
    if (const auto gradient = first_bad_gradient(setup_.model, setup_.plan, runner_.binding(),
                                                 runner_.last_runs(), error.step())) {
      text += "\n  the first gradient that is not finite, in the order of backward: " + *gradient;
    }
  }
  return text + "\n  " + save_what_is_whole() +
         "\n  try: a smaller optim.lr, optim.clip: 1.0, or train.precision: fp32";
}

/// Saves the state before a step that failed, where no update of it has begun and nothing in it is
/// bad. Says what there is to go on from, too.
std::string Run::save_what_is_whole() {
  const std::string state = "the state after step " + std::to_string(done_);
  std::string lost;
  runner_.take_back(done_);
  if (!is_untouched(setup_.plan, runner_.last_runs(), done_)) {
    lost = state + " is gone: updates had begun; ";
  } else if (saving_->is_left(done_)) {
    try {
      if (const auto bad = first_bad_state(setup_.model, states_)) {
        lost = state + " is of no use: " + *bad + " is not finite in it; ";
      } else {
        // The step may have shown that this state is bad already.
        saving_->save_at_last(done_, collapse_.last_good().value_or(done_ - 1));
      }
    } catch (const std::exception& error) {
      lost = state + " could not be saved: " + words_of(error) + "; ";
    }
  }
  const std::filesystem::path& newest = saving_->newest();
  return lost + (newest.empty() ? "no checkpoint was saved"
                                : "go on from " + newest.string() + " with --resume");
}

/// Leaves what there is to say about the run, and returns it. An old summary would be worse than
/// none, and no record is worth losing the result for.
TrainSummary Run::write_end(RunState state, const std::string& reason) {
  const std::filesystem::path out = job_.out;
  TrainSummary summary;  // at least
  summary.state = state;
  summary.steps_done = done_;
  summary.checkpoint = saving_->newest();
  try {
    end_log();
    summary = totals_.summary(done_, saving_->newest(), state, reason);
    require_folder();
    write_summary(out / "summary.json", summary, setup_.predicted_step);
    write_file(out / "timeline.json", to_chrome_trace(setup_.plan, tally_.timeline()));
  } catch (const std::exception& error) {
    std::error_code ignored;
    if (folder_->is_in_place()) std::filesystem::remove(out / "summary.json", ignored);
    observer_.warning(words_of(error));
  }
  return summary;
}

/// A run with its memory taken, for `act`. What torch throws becomes a ResourceError.
template <typename Act>
auto with_run(const TrainSetup& setup, TrainObserver& observer, const Act& act) {
  try {
    Run run(setup, observer);
    return act(run);
  } catch (const c10::Error& error) {
    throw ResourceError(std::string("torch: ") + error.what_without_backtrace());
  }
}

}  // namespace

TrainSummary train(const TrainSetup& setup, TrainObserver& observer) {
  return with_run(setup, observer, [](Run& run) { return run.execute(); });
}

void rehearse(const TrainSetup& setup, TrainObserver& observer) {
  with_run(setup, observer, [](Run& run) { run.restore(); });
}

}  // namespace ferry
