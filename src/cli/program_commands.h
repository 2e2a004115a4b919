// What each command of ferry takes, and what runs when it is called.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/commands.h"

namespace ferry {

/// How a command answers; known once its arguments are read.
struct AnswerForm {
  bool json = false;    // one object
  bool events = false;  // a line of JSON per event
};

/// By the arguments alone, whatever else is wrong with them.
AnswerForm asked_form(int argc, char** argv);

/// The commands of one call. Parsing runs the one that is named.
class ProgramCommands {
 public:
  /// Adds all commands to `program`, which is called as `name`. Both and `form` must outlive this.
  ProgramCommands(CLI::App& program, const char* name, AnswerForm& form);
  ProgramCommands(const ProgramCommands&) = delete;
  ProgramCommands& operator=(const ProgramCommands&) = delete;

  /// Of the command that has run.
  int exit_code() const { return exit_code_; }

 private:
  void add_plan();
  void add_simulate();
  void add_train(const char* name);
  void add_verify();
  void add_report();
  void add_export();
  void add_data();
  void add_doctor();
  void add_papers();
  void add_python_command(const std::string& name, const std::string& about);
  void add_help();

  CLI::App& program_;
  AnswerForm& form_;
  int exit_code_ = kDone;

  PlanCommand plan_;
  std::string without_;  // of `plan`: passes
  SimulateCommand simulate_;
  TrainCommand train_;
  std::string resume_;  // of `train`: a step, or the newest checkpoint
  VerifyCommand verify_;
  ReportCommand report_;
  ExportCommand export_;
  PreviewCommand preview_;
  DoctorCommand doctor_;
  PapersCommand papers_;
  std::vector<std::string> asked_about_;  // of `help`: the words of a command
};

/// The arguments, last first as the parser takes them. A step behind `--resume` is joined to it,
/// since what follows an option without a value may be the job file as well.
std::vector<std::string> words_of(int argc, char** argv);

}  // namespace ferry
