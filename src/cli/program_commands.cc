#include "cli/program_commands.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "cli/python_tools.h"
#include "cli/wrong_argument.h"

namespace ferry {
namespace {

constexpr const char* kNewest = "newest";

/// FILE [key=value ...], the arguments of everything that takes a job.
void add_job(CLI::App& command, std::string& job, std::vector<std::string>& overrides) {
  command.add_option("job", job, "job file")->required();
  command.add_option("overrides", overrides, "key=value, beats the job file");
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

/// What stands in place of a command that was left out: its help.
void help_without_command(CLI::App& command) {
  command.require_subcommand(0, 1);
  command.callback([&command] {
    if (command.get_subcommands().empty()) std::fputs(command.help().c_str(), stdout);
  });
}

}  // namespace

AnswerForm asked_form(int argc, char** argv) {
  const std::span<char*> words(argv, static_cast<std::size_t>(argc));
  const auto stands = [&](std::string_view option) {
    return std::ranges::count(words, option) > 0;
  };
  return {.json = stands("--json"), .events = stands("--events")};
}

ProgramCommands::ProgramCommands(CLI::App& program, const char* name, AnswerForm& form)
    : program_(program), form_(form) {
  help_without_command(program_);
  add_plan();
  add_simulate();
  add_train(name);
  add_verify();
  add_report();
  add_export();
  add_data();
  add_doctor();
  add_papers();
  add_python_command("init", "make a model directory with random weights");
  add_python_command("generate", "continue a prompt with a model");
  add_help();
}

void ProgramCommands::add_plan() {
  CLI::App& command = *program_.add_subcommand("plan", "say whether and how a job fits");
  add_job(command, plan_.job, plan_.overrides);
  command.add_option("-o,--output", plan_.output, "plan file; default OUT/plan");
  command.add_flag("--json", plan_.json, "answer in JSON");
  command.add_flag("--explain", plan_.explain,
                   "list all candidates, why one wins, and what more memory saves");
  command.add_flag("--what-if", plan_.what_if,
                   "plan again with other amounts of DRAM, drives, devices and batch");
  command.add_flag("--passes", plan_.passes, "list what each pass of the search took");
  command.add_option("--without", without_, "passes that do not run: plan.without=NAME[,NAME]");
  command.callback([this] {
    form_.json = plan_.json;
    if (!without_.empty()) plan_.overrides.push_back("plan.without=" + without_);
    exit_code_ = run_plan(plan_);
  });
}

void ProgramCommands::add_simulate() {
  CLI::App& command = *program_.add_subcommand("simulate", "predict a plan's timeline");
  command.add_option("plan", simulate_.plan, "plan file")->required();
  command.add_option("-o,--output", simulate_.trace, "Chrome trace; default PLAN.trace.json");
  command.add_option("--html", simulate_.html, "page for a browser");
  command.add_option(
      "--endurance", simulate_.endurance,
      "bytes all drives together may be written in their life: tells how long they last");
  command.add_flag("--json", simulate_.json, "answer in JSON");
  command.callback([this] {
    form_.json = simulate_.json;
    exit_code_ = run_simulate(simulate_);
  });
}

void ProgramCommands::add_train(const char* name) {
  train_.program = name;
  CLI::App& command = *program_.add_subcommand("train", "run a job");
  add_job(command, train_.job, train_.overrides);
  command.add_option("--plan", train_.plan, "run this plan file instead of making one");
  command.add_flag("--dry-run", train_.dry_run, "do everything but the steps");
  command
      .add_flag(std::string("--resume{") + kNewest + "}", resume_,
                "go on from the newest checkpoint in OUT, or from that after STEP steps")
      ->type_name("[STEP]");
  command
      .add_option("--allow", train_.allow,
                  "with --resume: go on though these have changed, NAME[,NAME]")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command.add_flag("--events", train_.events, "answer in JSON, a line per event");
  command.callback([this] {
    form_.events = train_.events;
    train_.resume = !resume_.empty();
    train_.step = step_in(resume_);
    exit_code_ = run_train(train_);
  });
}

void ProgramCommands::add_verify() {
  CLI::App& command =
      *program_.add_subcommand("verify", "hold a job's plan against the same job in memory");
  add_job(command, verify_.job, verify_.overrides);
  command.add_option("--plan", verify_.plan, "hold this plan file against it");
  command.add_option("--steps", verify_.steps, "how many steps")->check(CLI::Range(1, 1'000'000));
  command.callback([this] { exit_code_ = run_verify(verify_); });
}

void ProgramCommands::add_report() {
  CLI::App& command =
      *program_.add_subcommand("report", "show a run as a page for a browser and as a table");
  command.add_option("out", report_.out, "run folder")->required();
  command.callback([this] { exit_code_ = run_report(report_); });
}

void ProgramCommands::add_export() {
  CLI::App& command =
      *program_.add_subcommand("export", "write a run's model as a folder of its own");
  command.add_option("source", export_.source, "run folder or checkpoint")->required();
  command.add_option("folder", export_.folder, "empty or new folder")->required();
  command.add_option("--dtype", export_.dtype, "bf16, fp32 or fp16; default: as stored");
  command.callback([this] { exit_code_ = run_export(export_); });
}

void ProgramCommands::add_data() {
  CLI::App& data = *program_.add_subcommand("data", "look at training data");
  help_without_command(data);
  CLI::App& command = *data.add_subcommand("preview", "show tokens and what is learned");
  command.add_option("file", preview_.source, "job file, or with --model a data file")->required();
  command.add_option("overrides", preview_.overrides, "key=value, beats the job file");
  command.add_option("--model", preview_.model, "model folder, to look without a job");
  command.add_option("--samples", preview_.samples, "how many")->check(CLI::PositiveNumber);
  command.callback([this] { exit_code_ = run_preview(preview_); });
}

void ProgramCommands::add_doctor() {
  CLI::App& command =
      *program_.add_subcommand("doctor", "examine this box and write its machine file");
  command.add_option("--machine", doctor_.machine, "machine file to write");
  command.add_option("--drive", doctor_.drives, "folder on a drive to measure; repeatable")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command.add_option("--drive-size", doctor_.drive_size, "bytes to write and read per drive");
  command.add_flag("--json", doctor_.json, "answer in JSON");
  command.callback([this] {
    form_.json = doctor_.json;
    exit_code_ = run_doctor(doctor_);
  });
}

void ProgramCommands::add_papers() {
  CLI::App& command = *program_.add_subcommand("papers", "compare published figures with ferry's");
  command.add_option("tables", papers_.tables, "tables to show; default: all");
  command.add_option("--harmony", papers_.harmony, "folder with Harmony's profiles");
  command.add_flag("--json", papers_.json, "answer in JSON");
  command.callback([this] {
    form_.json = papers_.json;
    exit_code_ = run_papers(papers_);
  });
}

// Everything after the command's name goes to ferry_tools.
void ProgramCommands::add_python_command(const std::string& name, const std::string& about) {
  CLI::App& command = *program_.add_subcommand(name, about);
  command.prefix_command();
  command.set_help_flag();  // --help is answered by the tool
  command.callback([this, &command, name] {
    std::vector<std::string> arguments = {name};
    const auto rest = command.remaining();
    arguments.insert(arguments.end(), rest.begin(), rest.end());
    show_python_tool(arguments);
    exit_code_ = kDone;
  });
}

void ProgramCommands::add_help() {
  CLI::App& command = *program_.add_subcommand("help", "say what a command takes");
  command.add_option("command", asked_about_, "command; none: all of them");
  command.callback([this] {
    const CLI::App& named = named_command(program_, asked_about_);
    if (named.get_help_ptr() == nullptr) {  // answered by the tool
      show_python_tool({named.get_name(), "--help"});
    } else {
      // Not help(), which is that of the command that was typed, and that is `help`.
      std::string name = program_.get_name();
      for (const std::string& word : asked_about_) name += " " + word;
      const auto normal = CLI::AppFormatMode::Normal;
      std::fputs(named.get_formatter()->make_help(&named, name, normal).c_str(), stdout);
    }
    exit_code_ = kDone;
  });
}

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

}  // namespace ferry
