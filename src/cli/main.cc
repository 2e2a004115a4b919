// The ferry program: arguments in, exit code out. Every error ends here as one message.
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "base/error.h"
#include "base/version.h"
#include "cli/commands.h"
#include "cli/event.h"
#include "cli/installation.h"
#include "cli/python_tools.h"
#include "cli/standard_streams.h"
#include "cli/torch_part.h"
#include "cli/watchdog.h"
#include "cli/wrong_argument.h"

namespace {

using namespace ferry;

constexpr const char* kNewest = "newest";

/// FILE [key=value ...], the arguments of everything that takes a job.
void add_job(CLI::App& command, std::string& job, std::vector<std::string>& overrides) {
  command.add_option("job", job, "job file")->required();
  command.add_option("overrides", overrides, "key=value, beats the job file");
}

/// The arguments, last first as the parser takes them. A step behind `--resume` is joined to it,
/// since what follows an option without a value may be the job file as well.
std::vector<std::string> words_of(int argc, char** argv) {
  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool number = word.find_first_not_of("0123456789") == std::string::npos;
    if (!words.empty() && words.back() == "--resume" && !word.empty() && number) {
      words.back() += "=" + word;
    } else {
      words.push_back(word);
    }
  }
  std::ranges::reverse(words);
  return words;
}

/// What `--resume=STEP` names; nothing for the newest checkpoint.
std::optional<std::int64_t> step_in(const std::string& resume) {
  if (resume.empty() || resume == kNewest) return std::nullopt;
  std::int64_t step = 0;
  const auto end = resume.data() + resume.size();
  const auto read = std::from_chars(resume.data(), end, step);
  if (read.ec == std::errc() && read.ptr == end && step >= 0) return step;
  throw UserError("--resume=" + resume +
                  ": expected the step of a checkpoint, or nothing for the "
                  "newest");
}

/// Passes everything after the command's name to ferry_tools.
void add_python_command(CLI::App& program, const std::string& name, const std::string& about,
                        int& exit_code) {
  CLI::App* command = program.add_subcommand(name, about);
  command->prefix_command();
  command->set_help_flag();  // --help is answered by the tool
  command->callback([command, name, &exit_code] {
    std::vector<std::string> arguments = {name};
    const auto rest = command->remaining();
    arguments.insert(arguments.end(), rest.begin(), rest.end());
    show_python_tool(arguments);
    exit_code = kDone;
  });
}

/// `ferry help [COMMAND ...]`
void add_help(CLI::App& program, std::vector<std::string>& words, int& exit_code) {
  CLI::App* command = program.add_subcommand("help", "say what a command takes");
  command->add_option("command", words, "command; none: all of them");
  command->callback([&program, &words, &exit_code] {
    const CLI::App& named = named_command(program, words);
    if (named.get_help_ptr() == nullptr) {  // answered by the tool
      show_python_tool({named.get_name(), "--help"});
    } else {
      // Not help(), which is that of the command that was typed, and that is `help`.
      std::string name = program.get_name();
      for (const std::string& word : words) name += " " + word;
      const auto normal = CLI::AppFormatMode::Normal;
      std::fputs(named.get_formatter()->make_help(&named, name, normal).c_str(), stdout);
    }
    exit_code = kDone;
  });
}

/// What stands in place of a command that was left out: its help.
void help_without_command(CLI::App& command) {
  command.require_subcommand(0, 1);
  command.callback([&command] {
    if (command.get_subcommands().empty()) std::fputs(command.help().c_str(), stdout);
  });
}

/// How the command answers; known once its arguments are read.
struct AnswerForm {
  bool json = false;    // one object
  bool events = false;  // a line of JSON per event
};

int run(int argc, char** argv, AnswerForm& form) {
  CLI::App program("ferry fine-tunes language models far larger than GPU memory.", "ferry");
  program.set_version_flag("--version", "ferry " + std::string(version()));
  help_without_command(program);
  int exit_code = kDone;

  PlanCommand plan;
  CLI::App* plan_command = program.add_subcommand("plan", "say whether and how a job fits");
  add_job(*plan_command, plan.job, plan.overrides);
  plan_command->add_option("-o,--output", plan.output, "plan file; default OUT/plan");
  plan_command->add_flag("--json", plan.json, "answer in JSON");
  plan_command->add_flag("--explain", plan.explain, "list all candidates and why one wins");
  plan_command->add_flag("--what-if", plan.what_if,
                         "plan again with other amounts of DRAM, drives, devices and batch");
  plan_command->add_flag("--passes", plan.passes, "list what each pass of the search took");
  std::string without;
  plan_command->add_option("--without", without,
                           "passes that do not run: plan.without=NAME[,NAME]");
  plan_command->callback([&] {
    form.json = plan.json;
    if (!without.empty()) plan.overrides.push_back("plan.without=" + without);
    exit_code = run_plan(plan);
  });

  SimulateCommand simulate;
  CLI::App* simulate_command = program.add_subcommand("simulate", "predict a plan's timeline");
  simulate_command->add_option("plan", simulate.plan, "plan file")->required();
  simulate_command->add_option("-o,--output", simulate.trace,
                               "Chrome trace; default PLAN.trace.json");
  simulate_command->add_option("--html", simulate.html, "page for a browser");
  simulate_command->add_option("--endurance", simulate.endurance,
                               "bytes a drive may be written in its life: tells how long it lasts");
  simulate_command->add_flag("--json", simulate.json, "answer in JSON");
  simulate_command->callback([&] {
    form.json = simulate.json;
    exit_code = run_simulate(simulate);
  });

  TrainCommand train;
  CLI::App* train_command = program.add_subcommand("train", "run a job");
  add_job(*train_command, train.job, train.overrides);
  train_command->add_option("--plan", train.plan, "run this plan file instead of making one");
  train_command->add_flag("--dry-run", train.dry_run, "do everything but the steps");
  std::string resume;
  train_command
      ->add_flag(std::string("--resume{") + kNewest + "}", resume,
                 "go on from the newest checkpoint in OUT, or from that after STEP steps")
      ->type_name("[STEP]");
  train_command
      ->add_option("--allow", train.allow,
                   "with --resume: go on though these have changed, NAME[,NAME]")
      ->delimiter(',')
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  train_command->add_flag("--events", train.events, "answer in JSON, a line per event");
  train_command->callback([&] {
    form.events = train.events;
    train.program = argv[0];
    train.resume = !resume.empty();
    train.step = step_in(resume);
    exit_code = run_train(train);
  });

  VerifyCommand verify;
  CLI::App* verify_command =
      program.add_subcommand("verify", "hold a job's plan against the same job in memory");
  add_job(*verify_command, verify.job, verify.overrides);
  verify_command->add_option("--plan", verify.plan, "hold this plan file against it");
  verify_command->add_option("--steps", verify.steps, "how many steps")
      ->check(CLI::Range(1, 1'000'000));
  verify_command->callback([&] { exit_code = run_verify(verify); });

  ReportCommand report;
  CLI::App* report_command =
      program.add_subcommand("report", "show a run as a page for a browser and as a table");
  report_command->add_option("out", report.out, "run folder")->required();
  report_command->callback([&] { exit_code = run_report(report); });

  ExportCommand export_model;
  CLI::App* export_command =
      program.add_subcommand("export", "write a run's model as a folder of its own");
  export_command->add_option("source", export_model.source, "run folder or checkpoint")->required();
  export_command->add_option("folder", export_model.folder, "empty or new folder")->required();
  export_command->add_option("--dtype", export_model.dtype,
                             "bf16, fp32 or fp16; default: as stored");
  export_command->callback([&] { exit_code = run_export(export_model); });

  CLI::App* data = program.add_subcommand("data", "look at training data");
  help_without_command(*data);
  PreviewCommand preview;
  CLI::App* preview_command = data->add_subcommand("preview", "show tokens and what is learned");
  preview_command->add_option("file", preview.source, "job file, or with --model a data file")
      ->required();
  preview_command->add_option("overrides", preview.overrides, "key=value, beats the job file");
  preview_command->add_option("--model", preview.model, "model folder, to look without a job");
  preview_command->add_option("--samples", preview.samples, "how many")->check(CLI::PositiveNumber);
  preview_command->callback([&] { exit_code = run_preview(preview); });

  DoctorCommand doctor;
  CLI::App* doctor_command =
      program.add_subcommand("doctor", "examine this box and write its machine file");
  doctor_command->add_option("--machine", doctor.machine, "machine file to write");
  doctor_command->add_option("--drive", doctor.drives, "folder on a drive to measure; repeatable")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  doctor_command->add_option("--drive-size", doctor.drive_size,
                             "bytes to write and read per drive");
  doctor_command->add_flag("--json", doctor.json, "answer in JSON");
  doctor_command->callback([&] { exit_code = run_doctor(doctor); });

  PapersCommand papers;
  CLI::App* papers_command =
      program.add_subcommand("papers", "compare published figures with ferry's");
  papers_command->add_option("tables", papers.tables, "tables to show; default: all");
  papers_command->add_option("--harmony", papers.harmony, "folder with Harmony's profiles");
  papers_command->add_flag("--json", papers.json, "answer in JSON");
  papers_command->callback([&] { exit_code = run_papers(papers); });

  add_python_command(program, "init", "make a model directory with random weights", exit_code);
  add_python_command(program, "generate", "continue a prompt with a model", exit_code);

  std::vector<std::string> asked_about;
  add_help(program, asked_about, exit_code);

  try {
    program.parse(words_of(argc, argv));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) {
      if (const auto wrong = wrong_argument(program)) throw UserError(*wrong);
    }
    return program.exit(error) == 0 ? kDone : kUserError;
  }
  return exit_code;
}

// torch's libraries take 60 MB before main(), where nothing can be caught: less ends in an abort.
constexpr rlim_t kLeastData = rlim_t{128} << 20;

/// The same command with torch: in this process, or in one that is watched over. Returns from the
/// latter only.
int go_on_with_torch(const TorchNeeded& needed, char** argv) {
  rlimit data{};
  if (getrlimit(RLIMIT_DATA, &data) == 0 && data.rlim_cur < kLeastData) {
    throw ResourceError("torch needs 128 MiB of data to begin with; the limit (ulimit -d) is " +
                        std::to_string(data.rlim_cur >> 10) + " KiB");
  }
  const auto program = program_folder() / "ferry-torch";
  if (needed.watched) return watch_over(program, argv, "/");
  execv(program.c_str(), argv);
  throw system_error("cannot run " + program.string(), errno);
}

int answer(int argc, char** argv, AnswerForm& form) {
  open_standard_streams();
  try {
    const int exit_code = run(argc, argv, form);
    if (exit_code != kInterrupted) flush_output();  // there, its reader may be gone
    return exit_code;
  } catch (const TorchNeeded& needed) {
    return go_on_with_torch(needed, argv);
  }
}

constexpr auto kReplaceBadBytes = nlohmann::json::error_handler_t::replace;

/// Says on standard error what went wrong; a program that asked for JSON is answered in it too.
int fail(int exit_code, const std::string& text, const AnswerForm& form) {
  if (!text.empty()) std::fprintf(stderr, "%s\n", text.c_str());
  nlohmann::json answer{{"error", text}, {"exit", exit_code}};
  if (form.events) write_event("error", std::move(answer));
  // The text may quote a file that is not UTF-8.
  if (form.json) std::puts(answer.dump(-1, ' ', false, kReplaceBadBytes).c_str());
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace ferry;
  AnswerForm form;
  try {
    return answer(argc, argv, form);
  } catch (const AlreadyExplained&) {
    return fail(kUserError, "", form);
  } catch (const UserError& error) {
    return fail(kUserError, error.what(), form);
  } catch (const ResourceError& error) {
    return fail(kResourceError, error.what(), form);
  } catch (const std::bad_alloc&) {
    return fail(kResourceError,
                "out of host memory; try a smaller budget.host or fewer programs beside", form);
  } catch (const std::system_error& error) {  // threads, file system
    const bool is_thread = error.code() == std::errc::resource_unavailable_try_again;
    const char* const limits =
        ": no more threads can be started; see the limits of processes and memory (ulimit -u, -v, "
        "-d) and of the control group (pids.max)";
    return fail(kResourceError, std::string(error.what()) + (is_thread ? limits : ""), form);
  } catch (const std::exception& error) {  // torch
    return fail(kResourceError, error.what(), form);
  }
}
