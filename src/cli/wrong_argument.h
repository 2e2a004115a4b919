// What is said of an argument that the command line does not know.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

namespace ferry {

/// "unknown command 'trian'; did you mean 'train'?": the first argument that a parse of `program`
/// left over, with the command, flag or key of a job that may be meant. Nothing when none was.
std::optional<std::string> wrong_argument(const CLI::App& program);

/// The command that `words` name, from `program` on; no words: `program` itself. Throws UserError
/// like wrong_argument() when there is none.
const CLI::App& named_command(const CLI::App& program, const std::vector<std::string>& words);

}  // namespace ferry
