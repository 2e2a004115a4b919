#include "cli/question.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "cli/cache_folder.h"
#include "cli/python_tools.h"
#include "cli/torch_part.h"
#include "data/files.h"
#include "planner/costs/estimate.h"
#include "spec/document.h"
#include "spec/harmony_profile.h"

namespace ferry {
namespace {

/// True when every device of the machine can be opened here: simulated, or a GPU that is present.
bool is_here(const Machine& machine) {
  const auto simulated = [](const MachineDevice& d) { return d.kind == DeviceKind::sim; };
  if (std::ranges::all_of(machine.devices, simulated)) return true;
  const std::vector<FoundGpu> gpus = gpus_here();
  return std::ranges::all_of(machine.devices, [&](const MachineDevice& device) {
    return simulated(device) || std::ranges::count(gpus, device.index, &FoundGpu::index) > 0;
  });
}

Profile profile_for(const Question& question, PhaseListener& listener) {
  const Job& job = question.job;
  if (job.plan.profile == "auto" && !job.papers.pure && is_here(question.plan.machine)) {
    return measured_profile(question, listener);
  }
  if (job.plan.profile == "auto" || job.plan.profile == "estimate") {
    return estimate_profile(question.plan.model, question.plan.machine, job.train.precision,
                            {job.train.micro_batch_size, job.data.sequence});
  }
  return read_profile(job.plan.profile);
}

// The profile file that the job names, when it is one of Harmony's.
std::optional<HarmonyProfile> harmony_profile(const PlanJob& plan) {
  if (plan.profile == "auto" || plan.profile == "estimate") return std::nullopt;
  const std::string text = read_text_file(plan.profile);
  if (!looks_like_harmony_profile(text)) return std::nullopt;
  return parse_harmony_profile(text, plan.profile);
}

}  // namespace

Question read_question(const std::string& job_file, const std::vector<std::string>& overrides,
                       PhaseListener& listener) {
  Question question;
  question.job = read_job(job_file, overrides);
  const Job& job = question.job;
  PlanQuestion& plan = question.plan;
  plan.options = job.plan;
  plan.papers = job.papers;
  if (!job.model.empty()) {
    plan.model = read_model_spec(job.model);
    resolve_sequence(question.job, plan.model);
  }
  plan.machine = job.machine ? read_machine(*job.machine) : this_machine(gpus_here());
  if (job.threads > 0) {
    for (MachineDevice& device : plan.machine.devices) {
      if (device.kind == DeviceKind::sim) device.threads = job.threads;
    }
  }
  plan.micro_batches = job.train.micro_batches;
  plan.micro_batch_size = job.train.micro_batch_size;
  plan.sequence = job.data.sequence;
  plan.precision = job.train.precision;
  plan.clips = job.optim.clip > 0;
  plan.strategy = job.strategy;

  plan.device_budgets = device_budgets(job, plan.machine);
  const bool host_capped = job.budget.host && *job.budget.host < plan.machine.host.memory;
  plan.host_budget = host_capped ? *job.budget.host : plan.machine.host.memory;
  plan.host_budget_source =
      host_capped ? "budget.host, " + origin(job, "budget.host") : plan.machine.source.text;
  plan.harmony = harmony_profile(job.plan);
  plan.profile = plan.harmony ? profile_at(*plan.harmony, plan.micro_batch_size)
                              : profile_for(question, listener);
  if (job.model.empty()) {  // the profile stands for the model, and its batch for the job's
    plan.micro_batch_size = plan.profile.micro_batch_size;
    plan.sequence = plan.profile.sequence;
  }
  return question;
}

Planner with_origins(Planner planner, const Job& job) {
  return [planner = std::move(planner), &job](const PlanQuestion& question) {
    try {
      return planner(question);
    } catch (const JobKeyError& error) {
      throw with_origin(job, error);
    }
  };
}

Tokens token_file(const Job& job, const std::string& source) {
  if (source.ends_with(".tokens")) return {source, {}};
  std::vector<std::string> arguments = {"tokenize",   source,
                                        "--model",    job.model,
                                        "--sequence", std::to_string(job.data.sequence),
                                        "--cache",    (cache_folder() / "tokens").string()};
  if (job.data.text_key) {
    arguments.insert(arguments.end(), {"--text-key", *job.data.text_key});
  }
  const auto [output, peak] = run_python_tool(arguments);
  const auto end = output.find_last_not_of('\n');
  const auto begin = output.find_last_of('\n', end) + 1;
  const auto made = parse_json_or_null(output.substr(begin, end + 1 - begin));
  if (!made.is_object() || !made.contains("path")) {
    throw ResourceError("ferry_tools tokenize did not say where the token file is: " + output);
  }
  return {made.at("path").get<std::string>(), peak};
}

PlanQuestion evaluation_question(PlanQuestion question, const std::string& strategy) {
  question.mode = PlanMode::evaluate;
  question.strategy = strategy;
  return question;
}

}  // namespace ferry
