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
#include "spec/host_limits.h"
#include "spec/shared_memory.h"
#include "train/trainer.h"

namespace ferry {
namespace {

volatile std::sig_atomic_t interrupts = 0;

/// The first Ctrl-C asks for a stop after the step, the second ends the program.
extern "C" void on_interrupt(int) {
  if (interrupts != 0) _exit(kInterrupted);
  interrupts = 1;
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

std::nullopt_t say_lack(const DoesNotFit& answer) {
  std::fputs(does_not_fit_text(answer).c_str(), stdout);
  return std::nullopt;
}

/// The plan to run: the given file, or a new one. Nothing when it does not fit, which is then said.
std::optional<Planned> plan_for(const TrainCommand& command, const Question& question) {
  if (!command.plan.empty()) {
    Planned planned;
    planned.plan = read_plan(command.plan);
    require_verified(planned.plan, command.plan);
    require_same_question(planned.plan, question.plan, command.plan);
    if (question.plan.evaluates) {
      auto evaluation = make_evaluation(question.plan, planned.plan);
      if (const auto* no = std::get_if<DoesNotFit>(&evaluation)) return say_lack(*no);
      planned.evaluation = std::get<Plan>(std::move(evaluation));
    }
    planned.prediction = simulate(planned.plan);
    planned.lower_bound = planned.prediction.busiest;
    return planned;
  }
  PlanAnswer answer = with_origins(plan_or_cached, question.job)(question.plan);
  if (const auto* no = std::get_if<DoesNotFit>(&answer)) return say_lack(*no);
  Planned planned = std::get<Planned>(std::move(answer));
  require_same_question(planned.plan, question.plan, command.plan);
  return planned;
}

/// Whatever machine the plan counts on: simulated devices and the host take their memory of this
/// box. Throws ResourceError when it has less.
void require_memory(const Planned& planned, const Machine& machine) {
  MemoryNeed need{.bytes = {}, .by_place = {}, .simulated = simulated_devices(machine)};
  for (const PlaceId id : planned.plan.places.ids()) {
    const std::string& name = planned.plan.places[id].name;
    const auto device = std::ranges::find(machine.devices, name, &MachineDevice::name);
    if (device != machine.devices.end() && device->kind != DeviceKind::sim) continue;
    const Bytes bytes = peak_bytes(planned, id);
    need.bytes += bytes;
    need.by_place += (need.by_place.empty() ? "" : ", ") + name + " " + to_string(bytes);
  }
  require_free_memory(host_limits("/", cores_by_affinity()), need);
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
  std::fputs(plan_table(question.plan, *planned).c_str(), stdout);
  std::fflush(stdout);

  const Tokens tokens = token_file(job, job.data.train);
  TrainSetup setup{.job = job,
                   .machine = question.plan.machine,
                   .model = question.plan.model,
                   .plan = planned->plan,
                   .evaluation = std::nullopt,
                   .train_tokens = tokens.file,
                   .eval_tokens = std::nullopt,
                   .held_out_samples = 0,
                   .resume = command.resume,
                   .predicted_step = planned->prediction.step,
                   .tokenising_peak = tokens.peak};
  if (job.data.eval) {
    const Tokens held_out = token_file(job, *job.data.eval);
    setup.eval_tokens = held_out.file;
    setup.tokenising_peak = std::max(setup.tokenising_peak, held_out.peak);
  } else if (job.data.eval_fraction > 0) {
    const TokenFile file(setup.train_tokens);
    setup.held_out_samples =
        static_cast<std::int64_t>(static_cast<double>(file.size()) * job.data.eval_fraction);
  }
  if (job.train.epochs > 0) {
    const std::int64_t rows = rows_per_epoch(setup);
    const double epochs = job.train.epochs;
    resolve_steps(question.job, rows);
    setup.job = job;
    phases.phase(print("%g epochs of %s rows: %d steps", epochs, std::to_string(rows).c_str(),
                       job.train.steps));
  }
  if (question.plan.evaluates && (setup.eval_tokens || setup.held_out_samples > 0)) {
    setup.evaluation = planned->evaluation;
  }
  require_memory(*planned, setup.machine);
  write_inputs(question, planned->plan);

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
