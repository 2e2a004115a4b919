#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "base/error.h"
#include "cli/command_line.h"
#include "cli/console.h"
#include "cli/phase_lines.h"
#include "cli/plan_cache.h"
#include "cli/plan_tables.h"
#include "cli/print.h"
#include "cli/question.h"
#include "cli/stop_signals.h"
#include "cli/tables.h"
#include "cli/torch_part.h"
#include "data/tokens.h"
#include "plan/verify.h"
#include "train/trainer.h"

namespace ferry {
namespace {

/// The plan to run: the given file, or a new one. Nothing when it does not fit, which is then said.
std::optional<Planned> plan_for(const TrainCommand& command, const Question& question,
                                PhaseListener& listener) {
  if (!command.plan.empty()) {
    Planned planned;
    planned.plan = read_plan(command.plan);
    require_verified(planned.plan, command.plan);
    planned.prediction = simulate(planned.plan);
    planned.lower_bound = planned.prediction.busiest;
    return planned;
  }
  const Planner planner = [&](const PlanQuestion& asked) {
    return plan_or_cached(asked, listener);
  };
  PlanAnswer answer = with_origins(planner, question.job)(question.plan);
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

/// Gets the tokens of the job's data, and says which rows are held out.
void find_tokens(TrainSetup& setup) {
  const Job& job = setup.job;
  const Tokens tokens = token_file(job, job.data.train);
  setup.train_tokens = tokens.file;
  setup.tokenising_peak = tokens.peak;
  if (job.data.eval) {
    const Tokens held_out = token_file(job, *job.data.eval);
    setup.eval_tokens = held_out.file;
    setup.tokenising_peak = std::max(setup.tokenising_peak, held_out.peak);
  } else if (job.data.eval_fraction > 0) {
    const TokenFile file(setup.train_tokens);
    setup.held_out_samples =
        static_cast<std::int64_t>(static_cast<double>(file.size()) * job.data.eval_fraction);
  }
}

/// Turns the job's epochs into steps, now that its rows are known.
void count_steps(TrainSetup& setup, PhaseLines& phases) {
  if (setup.job.train.epochs <= 0) return;
  const double epochs = setup.job.train.epochs;
  const std::int64_t rows = rows_per_epoch(setup);
  resolve_steps(setup.job, rows);
  phases.phase(print("%g epochs of %s rows: %d steps", epochs, std::to_string(rows).c_str(),
                     setup.job.train.steps));
}

/// Plans evaluation, where the job asks for it. False when it does not fit, which is then said.
bool plan_evaluation(const PlanQuestion& question, TrainSetup& setup, PhaseLines& phases) {
  const bool evaluates =
      setup.job.train.eval_every > 0 && (setup.eval_tokens || setup.held_out_samples > 0);
  if (!evaluates) return true;
  PlanAnswer answer = search_plan(evaluation_question(question, setup.plan.strategy), phases);
  if (const auto* no = std::get_if<DoesNotFit>(&answer)) {
    std::fputs(("evaluation " + does_not_fit_text(*no)).c_str(), stdout);
    return false;
  }
  setup.evaluation = std::get<Planned>(answer).plan;
  return true;
}

/// Trains until the last step or an interrupt, and says what came of it.
int run(const TrainSetup& setup, const TrainCommand& command, TrainObserver& console) {
  const TrainSummary summary = train(setup, console);
  std::fputs(summary_table(summary, setup.predicted_step).c_str(), stdout);
  if (summary.checkpoint.empty()) {
    std::printf("interrupted before the first step: nothing to save\n");
    return kInterrupted;
  }
  std::printf("model written to %s\n", summary.checkpoint.c_str());
  if (summary.interrupted) {
    std::printf("to go on: %s\n", resume_line(command).c_str());
    return kInterrupted;
  }
  std::printf("next: ferry generate %s --prompt \"...\"\n", summary.checkpoint.c_str());
  return kDone;
}

}  // namespace

int train_from(const Start& start, const TrainCommand& command) {
  StopSignals stop;
  PhaseLines phases;
  Question question = read_question(command.job, command.overrides, phases);
  question.plan.machine.drives.clear();  // plans count on drives, training does not yet
  const auto planned = plan_for(command, question, phases);
  if (!planned) return kDoesNotFit;
  require_same_question(planned->plan, question.plan, command.plan);
  std::fputs(plan_table(question.plan, *planned).c_str(), stdout);
  std::fflush(stdout);

  TrainSetup setup{.job = question.job,
                   .machine = question.plan.machine,
                   .model = question.plan.model,
                   .plan = planned->plan,
                   .evaluation = std::nullopt,
                   .train_tokens = {},
                   .eval_tokens = std::nullopt,
                   .checkpoint = start.checkpoint,
                   .allowed = start.allowed,
                   .predicted_step = planned->prediction.step,
                   .tokenising_peak = {}};
  find_tokens(setup);
  count_steps(setup, phases);
  if (nothing_left(start, setup.job)) return kDone;
  if (!plan_evaluation(question.plan, setup, phases)) return kDoesNotFit;
  Console console(phases, setup.job.train.log_every, stop);
  return run(setup, command, console);
}

}  // namespace ferry
