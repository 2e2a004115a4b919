#include "cli/question.h"

#include <unistd.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "cli/cache_folder.h"
#include "cli/drive_rates.h"
#include "cli/python_tools.h"
#include "cli/torch_part.h"
#include "data/files.h"
#include "planner/costs/estimate.h"
#include "spec/drive_budgets.h"
#include "spec/harmony_profile.h"
#include "spec/host_limits.h"
#include "spec/named_files.h"
#include "spec/quantity.h"
#include "store/own_memory.h"

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

/// Sets the precision of job and plan, and says what `auto` has become.
void settle_precision(Question& question, std::optional<Precision> before,
                      PhaseListener& listener) {
  std::optional<Precision>& precision = question.job.train.precision;
  if (!precision && before) precision = before;
  if (!precision) {
    const bool asks_device = !question.job.papers.pure && is_here(question.plan.machine);
    const PrecisionChoice choice = asks_device && !question.job.model.empty()
                                       ? precision_here(question, listener)
                                       : precision_elsewhere();
    precision = choice.precision;
    const std::string said = "precision: " + to_string(*precision) + " (auto), since ";
    if (!question.job.papers.pure) listener.phase(said + choice.reason);
  }
  question.plan.precision = *precision;
}

Profile profile_for(Question& question, PhaseListener& listener) {
  const Job& job = question.job;
  if (job.plan.profile == "auto" && !job.papers.pure && is_here(question.plan.machine)) {
    MeasuredProfile measured = measured_profile(question, listener);
    question.profile_remarks = std::move(measured.remarks);
    return std::move(measured.profile);
  }
  if (job.plan.profile == "auto" || job.plan.profile == "estimate") {
    return estimate_profile(question.plan.model, question.plan.machine, question.plan.precision,
                            {job.train.micro_batch_size, job.data.sequence});
  }
  return parse_profile(named_profile(job), job.plan.profile);
}

// The profile file that the job names, when it is one of Harmony's.
std::optional<HarmonyProfile> harmony_profile(const Job& job) {
  const std::string& file = job.plan.profile;
  if (file == "auto" || file == "estimate") return std::nullopt;
  const std::string text = named_profile(job);
  if (!looks_like_harmony_profile(text)) return std::nullopt;
  return parse_harmony_profile(text, file);
}

/// A drive that `budget.drive` could name. Assumed is what consumer drives reach at least that a
/// desktop of today has, once their caches are full.
PossibleDrive possible_drive(const Job& job) {
  PossibleDrive drive{.read = {3e9}, .write = {1.5e9}, .here = !job.machine};
  if (!drive.here) return drive;
  const auto known = known_rates(job.out);
  if (!known) return drive;
  return {.read = {known->read}, .write = {known->write}, .here = true, .measured = true};
}

/// The machine that the job names, or this one.
void take_machine(const Job& job, PlanQuestion& plan, PhaseListener& listener) {
  if (job.machine) {
    plan.machine = named_machine(job);
    hold_gpus_to_budgets(job, &plan.machine);
    if (plan.machine.host.shared) plan.shared = shared_memory(plan.machine);
  } else {
    const HostLimits limits = host_limits("/", cores_by_affinity());
    hold_gpus_to_budgets(job, nullptr);
    plan.machine = machine_here(limits, listener);
    plan.shared = shared_memory(limits, own_memory(getpid()), simulated_devices(plan.machine));
  }
  if (job.threads == 0) return;
  for (MachineDevice& device : plan.machine.devices) {
    if (device.kind == DeviceKind::sim) device.threads = job.threads;
  }
}

/// What the job allows of the machine's memory.
void take_budgets(const Job& job, PlanQuestion& plan) {
  plan.device_budgets = device_budgets(job, plan.machine);
  const bool host_capped = job.budget.host && *job.budget.host < plan.machine.host.memory;
  plan.host_budget = host_capped ? *job.budget.host : plan.machine.host.memory;
  plan.host_budget_source =
      host_capped ? "budget.host, " + origin(job, "budget.host") : plan.machine.source.text;
}

/// The machine's drives as `budget.drive` has them, or one that it could have.
void take_drives(Question& question, PhaseListener& listener) {
  const Job& job = question.job;
  Machine& machine = question.plan.machine;
  take_drive_budgets(job, machine);
  question.plan.drive_budget_source = drive_budget_source(job);
  question.plan.drive_budgets = job.budget.drive;
  if (!job.budget.drive.empty()) {
    try {
      measure_missing_rates(machine, job.out, drives_of_this_box(listener));
    } catch (const JobKeyError& error) {
      throw with_origin(job, error);
    }
  } else if (machine.drives.empty()) {
    question.plan.possible_drive = possible_drive(job);
  }
}

/// The profile stands for the model, and its batch for the job's, which may not give another one.
/// One of Harmony's is of `train.micro_batch_size` samples, and knows no sequence.
void take_batch_of_profile(const Job& job, PlanQuestion& plan) {
  const Profile& profile = plan.profile;
  const auto require = [&](const char* key, int given, int profiles) {
    if (given == profiles || !job.origins.by_key.contains(key)) return;
    throw with_origin(
        job, JobKeyError(key, "profile '" + profile.name + "' has " + std::to_string(profiles) +
                                  ", and without a model the job has no other; found " +
                                  std::to_string(given) + "\n  try: leave it out"));
  };
  if (!plan.harmony) {
    require("train.micro_batch_size", plan.micro_batch_size, profile.micro_batch_size);
    if (plan.sequence != 0) require("data.sequence", plan.sequence, profile.sequence);
  }
  plan.micro_batch_size = profile.micro_batch_size;
  plan.sequence = profile.sequence;
}

/// As many as the cores that are ours keep busy and the memory that is ours holds.
int tokenising_processes() {
  constexpr Bytes kEach = 512_MiB;  // a tokenizer with what it makes of a group of rows
  const HostLimits limits = host_limits("/", cores_by_affinity());
  return static_cast<int>(
      std::clamp<std::int64_t>(limits.memory.count / kEach.count, 1, limits.cores));
}

/// "'data.train' (a.jsonl, b.jsonl)": what rows were made from.
std::string source_of(const char* key, const DataFiles& files) {
  std::string paths;
  for (const DataFile& file : files) paths += (paths.empty() ? "" : ", ") + file.path;
  return "'" + std::string(key) + "' (" + paths + ")";
}

}  // namespace

Question read_question(const std::string& job_file, const std::vector<std::string>& overrides,
                       PhaseListener& listener, std::optional<Precision> precision) {
  Question question;
  question.job = read_job(job_file, overrides);
  const Job& job = question.job;
  PlanQuestion& plan = question.plan;
  plan.options = job.plan;
  plan.papers = job.papers;
  if (!job.model.empty()) {
    plan.model = named_model(job);
    resolve_sequence(question.job, plan.model);
  }
  take_machine(job, plan, listener);
  take_drives(question, listener);
  take_budgets(job, plan);
  plan.micro_batches = job.train.micro_batches;
  plan.micro_batch_size = job.train.micro_batch_size;
  plan.sequence = job.data.sequence;
  plan.gradients = job.train.gradients;
  plan.clips = job.optim.clip > 0;
  plan.evaluates =
      job.train.eval_every > 0 && (!job.data.eval.empty() || job.data.eval_fraction > 0);
  plan.strategy = job.strategy;
  settle_precision(question, precision, listener);  // may measure, within the budgets
  plan.harmony = harmony_profile(job);
  plan.profile = plan.harmony ? profile_at(*plan.harmony, plan.micro_batch_size)
                              : profile_for(question, listener);
  if (job.model.empty()) take_batch_of_profile(job, plan);
  return question;
}

std::string profile_record(const Question& question) {
  if (!question.plan.profile.measured) return "";
  std::string text;
  for (const std::string& remark : question.profile_remarks) text += "# " + remark + "\n";
  return text + to_yaml(question.plan.profile);
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

std::vector<std::string> tokenising_arguments(const Job& job, const DataFiles& files) {
  std::vector<std::string> arguments = {"--model=" + job.model,
                                        "--sequence=" + std::to_string(job.data.sequence),
                                        "--cache=" + (cache_folder() / "tokens").string(),
                                        "--on-error=" + to_string(job.data.on_error),
                                        "--processes=" + std::to_string(tokenising_processes())};
  if (job.data.text_key) arguments.push_back("--text-key=" + *job.data.text_key);
  if (job.data.chat_template) arguments.push_back("--chat-template=" + *job.data.chat_template);
  std::string weights;
  for (const DataFile& file : files) {
    weights += (weights.empty() ? "" : ",") + real_text(file.weight);
  }
  arguments.push_back("--weights=" + weights);
  arguments.emplace_back("--");
  for (const DataFile& file : files) arguments.push_back(file.path);
  return arguments;
}

Tokens token_file(const Job& job, const char* key, const DataFiles& files, double held_out) {
  const std::string source = source_of(key, files);
  if (files.size() == 1 && files.front().weight == 1 && files.front().path.ends_with(".tokens")) {
    auto file = std::make_shared<TokenFile>(files.front().path, source);
    const double rows = static_cast<double>(file->size()) * held_out;
    return {std::move(file), {}, static_cast<std::int64_t>(rows), std::nullopt};
  }
  std::vector<std::string> arguments = {"tokenize", "--held-out=" + real_text(held_out)};
  const std::vector<std::string> rest = tokenising_arguments(job, files);
  arguments.insert(arguments.end(), rest.begin(), rest.end());
  const auto [output, peak] = run_python_tool(arguments);
  const auto end = output.find_last_not_of('\n');
  const auto begin = output.find_last_of('\n', end) + 1;
  const auto made = parse_json_or_null(output.substr(begin, end + 1 - begin));
  if (!made.is_object() || !made.contains("path") || !made.contains("held_out") ||
      !made.contains("chat_template")) {
    throw ResourceError("ferry_tools tokenize did not say where the token file is: " + output);
  }
  Tokens tokens = {std::make_shared<TokenFile>(made.at("path").get<std::string>(), source), peak,
                   made.at("held_out").get<std::int64_t>(), std::nullopt};
  if (const auto& file = made.at("chat_template"); file.is_string()) {
    tokens.chat_template = file.get<std::string>();
  }
  return tokens;
}

}  // namespace ferry
