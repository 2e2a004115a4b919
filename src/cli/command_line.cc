#include "cli/command_line.h"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace ferry {

std::string command_line(const TrainCommand& command) {
  std::string line = shell_quoted(command.program) + " train " + shell_quoted(command.job);
  for (const std::string& assignment : command.overrides) line += " " + shell_quoted(assignment);
  if (!command.plan.empty()) line += " --plan " + shell_quoted(command.plan);
  if (command.dry_run) line += " --dry-run";
  if (command.resume) line += " --resume";
  if (command.step) line += " " + std::to_string(*command.step);
  for (const std::string& name : command.allow) line += " --allow " + shell_quoted(name);
  return line;
}

std::string resume_line(TrainCommand command) {
  command.resume = true;
  command.step.reset();
  command.allow.clear();
  return command_line(command);
}

std::string shell_quoted(const std::string& word) {
  constexpr std::string_view kPlain = "_-./=:,+@%";
  const bool plain = !word.empty() && std::ranges::all_of(word, [&](unsigned char c) {
    return std::isalnum(c) != 0 || kPlain.find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

}  // namespace ferry
