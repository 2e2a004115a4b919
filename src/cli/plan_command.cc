#include <cstdio>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/drive_wear.h"
#include "cli/phase_lines.h"
#include "cli/plan_cache.h"
#include "cli/plan_tables.h"
#include "cli/question.h"
#include "cli/simulation_tables.h"
#include "data/files.h"
#include "data/named_file.h"
#include "data/run_lock.h"
#include "papers/papers.h"
#include "plan/verify.h"
#include "report/chrome_trace.h"
#include "report/html.h"
#include "train/run_folder.h"

namespace ferry {
namespace {

Planner planner_for(const Question& question, const PlanCommand& command, PhaseListener& listener) {
  // A paper's program may depend on more than the question's text, and is quick to make.
  if (question.job.papers.pure) return papers::answer;
  return [&command, &listener](const PlanQuestion& asked) {
    // A kept plan tells nothing of its search.
    return command.passes ? search_plan(asked, listener) : plan_or_cached(asked, listener);
  };
}

/// Writes a plan where it was asked for, or beside the job's results unless a run is there, whose
/// plan it is then. Returns the file; "" when none was written, which is then said.
std::string write_answer(const Plan& plan, const Question& question, const PlanCommand& command) {
  const std::filesystem::path out = question.job.out;
  if (!command.output.empty()) {
    write_named_file(command.output, to_text(plan));
    return command.output;
  }
  std::string taken;
  try {
    const RunLock lock(out, "ferry plan " + command.job);
    if (!holds_run(out)) {
      require_own_files(out);
      write_plan(plan, out / "plan");
      const std::string profile = profile_record(question);
      if (!profile.empty()) write_file(out / "profile.yaml", profile);
      return (out / "plan").string();
    }
    taken = out.string() + " holds a run\n  try: -o FILE, or another `out`";
  } catch (const FolderInUse& error) {
    taken = error.what();
  }
  std::fprintf(stderr, "plan not written: %s\n", taken.c_str());
  return "";
}

void warn_of_wear(const Question& question, const Plan& plan) {
  const auto wear = drive_wear(question.plan.machine, plan);
  const std::string warning = wear ? wear_warning(*wear, question.job.train.steps) : "";
  if (!warning.empty()) std::fprintf(stderr, "warning: %s\n", warning.c_str());
}

}  // namespace

int run_plan(const PlanCommand& command) {
  PhaseLines phases;
  const Question question = read_question(command.job, command.overrides, phases);
  const bool pure = question.job.papers.pure;
  const Planner planner = with_origins(planner_for(question, command, phases), question.job);
  const PlanAnswer answer = planner(question.plan);
  if (const auto* no = std::get_if<DoesNotFit>(&answer)) {
    std::fputs((command.json ? does_not_fit_json(*no) : does_not_fit_text(*no)).c_str(), stdout);
    return kDoesNotFit;
  }
  const Planned& planned = std::get<Planned>(answer);
  const std::string file = write_answer(planned.plan, question, command);
  std::vector<Variation> variations;
  std::vector<MoreMemory> more_memory;
  if (command.explain && !pure) {  // a paper's program has no memory
    const Planner quiet = [](const PlanQuestion& asked) { return plan_or_cached(asked, nobody()); };
    more_memory = what_more_memory_brings(question.plan, planned, quiet, phases);
  }
  if (command.what_if) {
    variations =
        what_if(question.plan, planned, pure ? papers::answer : plan_without_remedies, phases);
  }
  if (command.json) {
    std::fputs(plan_json(question.plan, planned, more_memory, variations, file).c_str(), stdout);
    return kDone;
  }
  std::fputs(plan_table(question.plan, planned).c_str(), stdout);
  warn_of_wear(question, planned.plan);
  if (command.explain) std::fputs(explanation(planned).c_str(), stdout);
  if (!more_memory.empty()) std::fputs(more_memory_table(planned, more_memory).c_str(), stdout);
  if (command.passes) std::fputs(passes_table(planned).c_str(), stdout);
  if (command.what_if) std::fputs(variations_table(variations).c_str(), stdout);
  if (!file.empty()) std::printf("plan written to %s\n", file.c_str());
  return kDone;
}

namespace {

std::optional<Bytes> endurance_of(const SimulateCommand& command) {
  if (command.endurance.empty()) return std::nullopt;
  try {
    return parse_bytes(command.endurance);
  } catch (const UserError& error) {
    throw UserError(std::string("--endurance: ") + error.what());
  }
}

}  // namespace

int run_simulate(const SimulateCommand& command) {
  const std::optional<Bytes> endurance = endurance_of(command);
  const Plan plan = read_plan(command.plan);
  require_verified(plan, command.plan);
  const Simulation simulation = simulate(plan);
  const std::string trace = command.trace.empty() ? command.plan + ".trace.json" : command.trace;
  write_named_file(trace, to_chrome_trace(plan, simulation.timeline));
  if (!command.html.empty()) write_named_file(command.html, to_html(plan, simulation));
  if (command.json) {
    std::fputs(simulation_json(plan, simulation, endurance).c_str(), stdout);
    return kDone;
  }
  std::fputs(simulation_table(plan, simulation, endurance).c_str(), stdout);
  std::printf("timeline written to %s (open it in ui.perfetto.dev)\n", trace.c_str());
  if (!command.html.empty()) {
    std::printf("page written to %s (open it in a browser)\n", command.html.c_str());
  }
  return kDone;
}

}  // namespace ferry
