#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/phase_lines.h"
#include "cli/plan_cache.h"
#include "cli/plan_tables.h"
#include "cli/print.h"
#include "cli/question.h"
#include "cli/tables.h"
#include "data/files.h"
#include "data/tokens.h"
#include "plan/verify.h"
#include "train/trainer.h"

namespace ferry {
namespace {

volatile std::sig_atomic_t interrupts = 0;

/// The first Ctrl-C asks for a stop after the step, the second ends the program.
extern "C" void on_interrupt(int) {
  if (interrupts != 0) _exit(kInterrupted);
  interrupts = 1;
}

/// The plan to run: the given file, or a new one. Nothing when it does not fit, which is then said.
std::optional<Planned> plan_for(const TrainCommand& command, const Question& question) {
  if (!command.plan.empty()) {
    Planned planned;
    planned.plan = read_plan(command.plan);
    require_verified(planned.plan, command.plan);
    planned.prediction = simulate(planned.plan);
    planned.lower_bound = planned.prediction.busiest;
    return planned;
  }
  PlanAnswer answer = with_origins(plan_or_cached, question.job)(question.plan);
  if (const auto* no = std::get_if<DoesNotFit>(&answer)) {
    std::fputs(does_not_fit_text(*no).c_str(), stdout);
    return std::nullopt;
  }
  return std::get<Planned>(std::move(answer));
}

void require_same_question(const Plan& plan, const PlanQuestion& question,
                           const std::string& file) {
  const bool on_drives =
      std::any_of(plan.places.begin(), plan.places.end(),
                  [](const Place& place) { return place.kind == PlaceKind::drive; });
  if (on_drives) {
    throw UserError(
        (file.empty() ? "this plan" : file) +
        ": rests values on drives, which can be planned but not trained yet; plan for a "
        "machine file without drives");
  }
  if (plan.timing_only) {
    throw UserError(
        (file.empty() ? "this plan" : file) +
        ": only tells time and cannot train; leave papers.pure off and make a plan again");
  }
  if (plan.micro_batches != question.micro_batches ||
      plan.micro_batch_size != question.micro_batch_size || plan.sequence != question.sequence ||
      plan.precision != question.precision || plan.clips != question.clips ||
      plan.mode != question.mode || plan.blocks.size() != question.model.blocks.size()) {
    throw UserError(file +
                    ": the plan was made for another job (micro_batches, micro_batch_size, "
                    "sequence, precision, clip or model differ); make it again with ferry plan");
  }
}

/// Writes what the run was asked for into its folder.
void write_inputs(const Question& question, const Plan& plan) {
  const std::filesystem::path out = question.job.out;
  std::filesystem::create_directories(out);
  write_file(out / "job.yaml", to_yaml(question.job));
  write_file(out / "machine.yaml", to_yaml(question.plan.machine));
  write_plan(plan, out / "plan");
}

}  // namespace

int run_train(const TrainCommand& command) {
  PhaseLines phases;
  Question question = read_question(command.job, command.overrides, phases);
  const Job& job = question.job;
  require_trainable(job);
  question.plan.machine.drives.clear();  // plans count on drives, training does not yet
  auto planned = plan_for(command, question);
  if (!planned) return kDoesNotFit;
  require_same_question(planned->plan, question.plan, command.plan);
  std::fputs(plan_table(question.plan, *planned).c_str(), stdout);
  std::fflush(stdout);

  const Tokens tokens = token_file(job, job.data.train, job.data.eval_fraction);
  TrainSetup setup{.job = job,
                   .machine = question.plan.machine,
                   .model = question.plan.model,
                   .plan = planned->plan,
                   .evaluation = std::nullopt,
                   .train_tokens = tokens.file,
                   .eval_tokens = std::nullopt,
                   .held_out_samples = tokens.held_out,
                   .chat_template = tokens.chat_template,
                   .resume = command.resume,
                   .predicted_step = planned->prediction.step,
                   .tokenising_peak = tokens.peak};
  if (!job.data.eval.empty()) {
    const Tokens evaluation = token_file(job, job.data.eval, 0);
    setup.eval_tokens = evaluation.file;
    setup.tokenising_peak = std::max(setup.tokenising_peak, evaluation.peak);
  }
  if (job.train.epochs > 0) {
    const std::int64_t rows = rows_per_epoch(setup);
    const double epochs = job.train.epochs;
    resolve_steps(question.job, rows);
    setup.job = job;
    phases.phase(print("%g epochs of %s rows: %d steps", epochs, std::to_string(rows).c_str(),
                       job.train.steps));
  }
  write_inputs(question, planned->plan);
  if (job.train.eval_every > 0 && (setup.eval_tokens || setup.held_out_samples > 0)) {
    PlanAnswer answer = make_plan(evaluation_question(question.plan, planned->plan.strategy));
    if (const auto* no = std::get_if<DoesNotFit>(&answer)) {
      std::fputs(("evaluation " + does_not_fit_text(*no)).c_str(), stdout);
      return kDoesNotFit;
    }
    setup.evaluation = std::get<Planned>(answer).plan;
  }

  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
  Console console(phases, job.train.log_every, [] { return interrupts != 0; });
  const TrainSummary summary = train(setup, console);
  std::fputs(summary_table(summary, setup.predicted_step).c_str(), stdout);
  std::printf("model written to %s\n", summary.checkpoint.c_str());
  std::printf("next: ferry generate %s --prompt \"...\"\n", summary.checkpoint.c_str());
  return summary.interrupted ? kInterrupted : kDone;
}

}  // namespace ferry
