#include "cli/train_command.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "cli/cache_folder.h"
#include "cli/command_line.h"
#include "cli/console.h"
#include "cli/drive_wear.h"
#include "cli/drives_here.h"
#include "cli/environment.h"
#include "cli/event.h"
#include "cli/event_lines.h"
#include "cli/given_plan.h"
#include "cli/phase_lines.h"
#include "cli/plan_cache.h"
#include "cli/plan_tables.h"
#include "cli/print.h"
#include "cli/python_tools.h"
#include "cli/question.h"
#include "cli/stop_signals.h"
#include "cli/tables.h"
#include "cli/torch_part.h"
#include "data/batches.h"
#include "data/manifest.h"
#include "data/tokens.h"
#include "plan/verify.h"
#include "spec/host_limits.h"
#include "spec/layout.h"
#include "spec/named_files.h"
#include "spec/shared_memory.h"
#include "train/devices.h"
#include "train/earlier_lines.h"
#include "train/job_rows.h"
#include "train/measure.h"
#include "train/records.h"
#include "train/run_folder.h"
#include "train/trainer.h"

namespace ferry {
namespace {

void show_plan(const TrainCommand& command, const Question& question, const Planned& planned) {
  if (command.events) {
    const std::string file = std::filesystem::path(question.job.out) / "plan";
    write_event("plan", parse_json(plan_summary_json(question.plan, planned, file), file));
  } else {
    std::fputs(plan_table(question.plan, planned).c_str(), stdout);
    std::fflush(stdout);
  }
}

std::nullopt_t show_does_not_fit(const TrainCommand& command, const DoesNotFit& answer) {
  if (command.events) {
    write_event("does_not_fit", parse_json(does_not_fit_json(answer), "answer"));
  } else {
    std::fputs(does_not_fit_text(answer).c_str(), stdout);
  }
  return std::nullopt;
}

/// The precision of the run that goes on; nothing for a new one.
std::optional<Precision> precision_before(const Start& start) {
  if (!start.checkpoint) return std::nullopt;
  const Manifest manifest = read_manifest(*start.checkpoint);
  const auto kept = manifest.question.find("train.precision");
  if (kept == manifest.question.end()) return std::nullopt;
  return kept->second == to_string(Precision::fp32) ? Precision::fp32 : Precision::bf16;
}

/// The share of clipped steps that the run which goes on has seen; nothing for a new one.
std::optional<double> clipped_before(const Start& start, const Job& job) {
  if (!start.checkpoint || job.optim.clip <= 0) return std::nullopt;
  const std::filesystem::path log = std::filesystem::path(job.out) / "log.jsonl";
  return clipped_share(read_earlier_lines(log, static_cast<int>(start.done.steps)), job.optim.clip);
}

/// The given plan file, with a plan for evaluating beside it where the job evaluates.
std::optional<Planned> plan_in_file(const TrainCommand& command, const PlanQuestion& question) {
  Planned planned;
  planned.plan = read_given_plan(command.plan, question);
  if (question.evaluates) {
    auto evaluation = make_evaluation(question, planned.plan);
    if (const auto* no = std::get_if<DoesNotFit>(&evaluation))
      return show_does_not_fit(command, *no);
    planned.evaluation = std::get<Plan>(std::move(evaluation));
    if (!std::ranges::equal(planned.evaluation->places, planned.plan.places, {}, &Place::name,
                            &Place::name)) {
      throw UserError(command.plan +
                      ": the plan has other devices or drives than the one to evaluate by; make it "
                      "again with ferry plan, or set train.eval_every: 0");
    }
  }
  planned.prediction = simulate(planned.plan);
  planned.lower_bound = planned.prediction.busiest;
  return planned;
}

/// The plan to run: the given file, or a new one. Nothing when it does not fit, which is then said.
std::optional<Planned> plan_for(const TrainCommand& command, const Question& question,
                                PhaseListener& listener) {
  if (!command.plan.empty()) return plan_in_file(command, question.plan);
  const Planner planner = [&](const PlanQuestion& asked) {
    return plan_or_cached(asked, listener);
  };
  PlanAnswer answer = with_origins(planner, question.job)(question.plan);
  if (const auto* no = std::get_if<DoesNotFit>(&answer)) return show_does_not_fit(command, *no);
  Planned planned = std::get<Planned>(std::move(answer));
  require_same_question(planned.plan, question.plan, command.plan);
  return planned;
}

/// Whatever machine the plan counts on: simulated devices and the host take their memory of this
/// box. Throws ResourceError when it has less.
void require_memory(const Planned& planned, const Machine& machine) {
  MemoryNeed need{.bytes = {}, .by_place = {}, .simulated = simulated_devices(machine)};
  for (const PlaceId id : planned.plan.places.ids()) {
    if (planned.plan.places[id].kind == PlaceKind::drive) continue;
    const std::string& name = planned.plan.places[id].name;
    const auto device = std::ranges::find(machine.devices, name, &MachineDevice::name);
    if (device != machine.devices.end() && device->kind != DeviceKind::sim) continue;
    const Bytes bytes = peak_bytes(planned, id);
    need.bytes += bytes;
    need.by_place += (need.by_place.empty() ? "" : ", ") + name + " " + to_string(bytes);
  }
  require_free_memory(host_limits("/", cores_by_affinity()), need);
}

/// The tokens of a job's data, and a pass over those that are trained on.
struct JobTokens {
  Tokens train;
  std::optional<Tokens> eval;
  EpochFigures epoch;

  Bytes peak() const { return eval ? std::max(train.peak, eval->peak) : train.peak; }
};

/// Throws UserError where there is nothing in the rows to learn, or to evaluate on, or the model
/// has no such tokens.
EpochFigures check_rows(const Job& job, const ModelSpec& model, const JobTokens& tokens) {
  const TokenFile& train = *tokens.train.file;
  train.require_vocabulary(model.vocab);
  if (job.train.eval_every > 0 && tokens.eval) {
    const TokenFile& eval = *tokens.eval->file;
    eval.require_vocabulary(model.vocab);
    Batches(eval, evaluation_rows(job, eval, eval.size()));
  } else if (job.train.eval_every > 0) {
    Batches(train, evaluation_rows(job, train, tokens.train.held_out));
  }
  return epoch_figures(Batches(train, training_rows(job, train, tokens.train.held_out)));
}

/// Before anything is measured: what is wrong with a row is told first.
JobTokens find_tokens(const TrainCommand& command) {
  Job job = read_job(command.job, command.overrides);
  const ModelSpec model = named_model(job);
  resolve_sequence(job, model);
  JobTokens tokens{
      token_file(job, "data.train", job.data.train, job.data.eval_fraction), std::nullopt, {}};
  if (!job.data.eval.empty()) tokens.eval = token_file(job, "data.eval", job.data.eval, 0);
  if (job.train.eval_every > 0 && !tokens.eval && tokens.train.held_out == 0) {
    const std::string place = origin(job, "data.eval_fraction");
    throw UserError(place + ": 'train.eval_every' needs something to evaluate on; of these rows " +
                    "'data.eval_fraction' holds out none; expected a larger part, or 'data.eval'");
  }
  tokens.epoch = check_rows(job, model, tokens);
  return tokens;
}

/// Turns the job's epochs into steps, now that its rows are known, and says what will be trained.
void count_steps(const TrainCommand& command, const Start& start, const EpochFigures& epoch,
                 TrainSetup& setup, PhaseListener& listener) {
  if (setup.job.train.epochs > 0) {
    const double epochs = setup.job.train.epochs;
    resolve_steps(setup.job, epoch.rows, start.done);
    listener.phase(print("%g epochs of %s rows: %d steps", epochs,
                         std::to_string(epoch.rows).c_str(), setup.job.train.steps));
  }
  if (command.events) return;
  const Bytes checkpoint = checkpoint_size(setup.model, setup.job);
  std::fputs(start_table(setup, epoch, checkpoint).c_str(), stdout);
  std::fflush(stdout);
}

/// Says what came of a run.
void show_end(const TrainCommand& command, const TrainSummary& summary, Micros predicted_step) {
  if (command.events) {
    write_event("finished", parse_json(summary_json(summary, predicted_step), "summary"));
    return;
  }
  std::fputs(summary_table(summary, predicted_step).c_str(), stdout);
  if (summary.checkpoint.empty()) {
    std::printf(summary.steps_done == 0 ? "interrupted before the first step: nothing to save\n"
                                        : "no checkpoint was written (train.save_last)\n");
    return;
  }
  std::printf("model written to %s\n", summary.checkpoint.c_str());
  if (summary.state == RunState::interrupted) {
    std::printf("to go on: %s\n", resume_line(command).c_str());
  } else {
    std::printf("next: ferry generate %s --prompt \"...\"  (with --chat: a user's turn)\n",
                shell_quoted(summary.checkpoint.string()).c_str());
  }
}

/// Does all but the steps, and says which would be the first.
int dry_run(const Start& start, const TrainCommand& command, const TrainSetup& setup,
            TrainObserver& observer) {
  rehearse(setup, observer);
  const std::string text =
      print("dry run: all is there; without --dry-run step %lld of %d is next",
            static_cast<long long>(start.done.steps + 1), setup.job.train.steps);
  if (command.events) {
    observer.phase(text);
  } else {
    std::printf("%s\n", text.c_str());
  }
  return kDone;
}

/// Starts what tells TensorBoard of the run's steps, where the job asks for it. It follows the log
/// that the run is going to begin, not the one that an earlier part of the run has left.
std::optional<PythonToolBeside> tell_others(const Start& start, const Job& job) {
  if (job.train.report_to == ReportTo::none) return std::nullopt;
  const std::filesystem::path log = std::filesystem::path(job.out) / "log.jsonl";
  struct stat earlier = {};
  if (stat(log.c_str(), &earlier) != 0) earlier.st_ino = 0;
  const std::string folder = (std::filesystem::path(job.out) / "tensorboard").string();
  return std::optional<PythonToolBeside>(
      std::in_place,
      std::vector<std::string>{"tensorboard", "--log=" + log.string(), "--to=" + folder,
                               "--after=" + std::to_string(start.done.steps),
                               "--earlier=" + std::to_string(earlier.st_ino)});
}

/// Before the first step, when the run can still be thought over.
void warn_of_wear(const Start& start, const TrainSetup& setup, TrainObserver& observer) {
  const auto wear = drive_wear(setup.machine, setup.plan);
  const std::string text =
      wear ? wear_warning(*wear, setup.job.train.steps - start.done.steps) : "";
  if (!text.empty()) observer.warning(text);
}

}  // namespace

std::optional<TrainSetup> prepare_training(const TrainCommand& command, const Start& start,
                                           PhaseListener& listener) {
  const JobTokens tokens = find_tokens(command);
  Question question =
      read_question(command.job, command.overrides, listener, precision_before(start));
  keep_usable_drives(question.plan.machine, command.without_drives, listener);
  if (command.without_drives) question.plan.possible_drive.reset();
  std::optional<double>& clipped = question.plan.options.clipped;
  if (!clipped) clipped = clipped_before(start, question.job);
  const auto planned = plan_for(command, question, listener);
  if (!planned) return std::nullopt;
  show_plan(command, question, *planned);

  const TorchFacts torch{torch_version(), cpu_capability(), find_gpus()};
  TrainSetup setup{.job = question.job,
                   .machine = question.plan.machine,
                   .model = question.plan.model,
                   .plan = planned->plan,
                   .evaluation = std::nullopt,
                   .train_tokens = tokens.train.file,
                   .eval_tokens = tokens.eval ? tokens.eval->file : nullptr,
                   .held_out_samples = tokens.train.held_out,
                   .chat_template = tokens.train.chat_template,
                   .checkpoint = start.checkpoint,
                   .allowed = start.allowed,
                   .predicted_step = planned->prediction.step,
                   .tokenising_peak = tokens.peak(),
                   .environment = environment_json(question.job, torch),
                   .profile = profile_record(question),
                   .kernel_file = kernel_file};
  count_steps(command, start, tokens.epoch, setup, listener);
  if (setup.eval_tokens || setup.held_out_samples > 0) setup.evaluation = planned->evaluation;
  require_memory(*planned, setup.machine);
  require_space(setup.model, setup.job, start.done.steps, swap_needs(setup));
  return setup;
}

int train_from(const Job& job, const Start& start, const TrainCommand& command) {
  StopSignals stop;
  PhaseLines phases;
  EventLines events(stop);
  PhaseListener& listener = command.events ? static_cast<PhaseListener&>(events) : phases;
  if (job.train.report_to == ReportTo::tensorboard) {
    run_python_tool({"tensorboard", "--check"});  // before anything that takes long
  }
  const auto setup = prepare_training(command, start, listener);
  if (!setup) return kDoesNotFit;
  if (nothing_left(start, setup->job, command.events)) return kDone;
  Console console(phases, setup->job.train.log_every, stop);
  TrainObserver& observer = command.events ? static_cast<TrainObserver&>(events) : console;
  if (command.dry_run) return dry_run(start, command, *setup, observer);
  warn_of_wear(start, *setup, observer);
  const auto others = tell_others(start, setup->job);
  const TrainSummary summary = train(*setup, observer);
  show_end(command, summary, setup->predicted_step);
  return summary.state == RunState::interrupted ? kInterrupted : kDone;
}

}  // namespace ferry
