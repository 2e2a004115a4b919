#include "cli/wrong_argument.h"

#include <algorithm>

#include "base/error.h"
#include "spec/job.h"
#include "spec/nearest.h"

namespace ferry {
namespace {

/// "; did you mean 'train'?", or "; expected one of ..." when nothing is near.
std::string hint(const std::string& word, const std::vector<std::string>& known) {
  const std::string near = nearest(word, known);
  if (!near.empty()) return "; did you mean '" + near + "'?";
  return known.empty() ? "" : "; expected one of " + joined(known);
}

std::string unknown_command(const CLI::App& parent, const std::string& word) {
  std::vector<std::string> known;
  for (const CLI::App* command : parent.get_subcommands({})) known.push_back(command->get_name());
  return "unknown command '" + word + "'" + hint(word, known);
}

std::string unknown_option(const CLI::App& command, const std::string& word) {
  std::vector<std::string> known;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
    for (const std::string& name : option->get_snames()) known.push_back("-" + name);
  }
  const std::string flag = word.substr(0, word.find('='));
  const std::string text = "unknown option '" + flag + "'";
  const bool takes_job = command.get_option_no_throw("overrides") != nullptr;
  const std::string name = flag.substr(std::min(flag.find_first_not_of('-'), flag.size()));
  if (takes_job && nearest(flag, known).empty()) {
    if (const std::string key = meant_key(name); !key.empty()) {
      return text + "; keys of the job are written without dashes: " + key + "=VALUE";
    }
  }
  return text + hint(flag, known);
}

}  // namespace

std::optional<std::string> wrong_argument(const CLI::App& program) {
  const CLI::App* command = &program;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  std::vector<std::string> left = command->remaining();
  if (left.empty()) left = program.remaining();
  if (left.empty()) return std::nullopt;
  const std::string& word = left.front();
  if (word.starts_with("-")) return unknown_option(*command, word);
  if (!command->get_subcommands({}).empty()) return unknown_command(*command, word);
  return "unexpected argument '" + word + "'; ferry " + command->get_name() +
         " --help tells what " + "it takes";
}

const CLI::App& named_command(const CLI::App& program, const std::vector<std::string>& words) {
  const CLI::App* command = &program;
  for (const std::string& word : words) {
    const auto known =
        command->get_subcommands([&](const CLI::App* each) { return each->get_name() == word; });
    if (known.empty()) throw UserError(unknown_command(*command, word));
    command = known.front();
  }
  return *command;
}

}  // namespace ferry
