// The ferry program: arguments in, exit code out. Every error ends here as one message.
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <system_error>

#include "base/error.h"
#include "base/json.h"
#include "base/system_words.h"
#include "base/version.h"
#include "cli/commands.h"
#include "cli/event.h"
#include "cli/installation.h"
#include "cli/program_commands.h"
#include "cli/python_tools.h"
#include "cli/standard_streams.h"
#include "cli/torch_part.h"
#include "cli/watchdog.h"
#include "cli/wrong_argument.h"

namespace {

using namespace ferry;

/// What the parser says of arguments that it does not take.
std::string told_by(const CLI::App& program, const CLI::ParseError& error) {
  std::ostringstream told;
  program.exit(error, told, told);
  std::string text = told.str();
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

int run(int argc, char** argv, AnswerForm& form) {
  CLI::App program("ferry fine-tunes language models far larger than GPU memory.", "ferry");
  program.set_version_flag("--version", "ferry " + std::string(version()));
  const ProgramCommands commands(program, argv[0], form);
  try {
    program.parse(words_of(argc, argv));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return program.exit(error);  // help, or the version
    form = asked_form(argc, argv);                               // no command has said it
    throw UserError(wrong_argument(program).value_or(told_by(program, error)));
  }
  return commands.exit_code();
}

// torch's libraries take 60 MB before main(), where nothing can be caught: less ends in an abort.
constexpr rlim_t kLeastData = rlim_t{128} << 20;

/// A checkpoint of a large model has some hundreds of shards open at once, and shells say 1024.
/// What the system does not give is told by the file that cannot be opened.
void raise_limit_of_files() {
  constexpr rlim_t kWanted = 65536;
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= kWanted) return;
  files.rlim_cur = std::min(files.rlim_max, kWanted);
  setrlimit(RLIMIT_NOFILE, &files);
}

/// The same command with torch: in this process, or in one that is watched over. Returns from the
/// latter only.
int go_on_with_torch(const TorchNeeded& needed, char** argv) {
  rlimit data{};
  if (getrlimit(RLIMIT_DATA, &data) == 0 && data.rlim_cur < kLeastData) {
    throw ResourceError("torch needs 128 MiB of data to begin with; the limit (ulimit -d) is " +
                        std::to_string(data.rlim_cur >> 10) + " KiB");
  }
  raise_limit_of_files();
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

/// Says on standard error what went wrong; a program that asked for JSON is answered in it too.
int fail(int exit_code, const std::string& text, const AnswerForm& form) {
  if (!text.empty()) std::fprintf(stderr, "%s\n", text.c_str());
  nlohmann::json answer{{"error", text}, {"exit", exit_code}};
  if (form.events) write_event("error", std::move(answer));
  // The text may quote a file that is not UTF-8.
  if (form.json) std::puts(json_text(answer).c_str());
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace ferry;
  std::signal(SIGXFSZ, SIG_IGN);  // a limit on file sizes is an error of the call that meets it
  AnswerForm form;
  try {
    return answer(argc, argv, form);
  } catch (const AlreadyExplained& told) {
    return fail(told.exit_code, "", form);
  } catch (const UserError& error) {
    return fail(kUserError, error.what(), form);
  } catch (const ResourceError& error) {
    return fail(kResourceError, error.what(), form);
  } catch (const std::bad_alloc&) {
    return fail(kResourceError, kOutOfMemory, form);
  } catch (const std::system_error& error) {  // threads, file system
    return fail(kResourceError, words_of_system(error), form);
  } catch (const std::exception& error) {  // torch
    return fail(kResourceError, error.what(), form);
  }
}
