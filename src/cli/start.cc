#include "cli/start.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/command_line.h"
#include "cli/drives_here.h"
#include "cli/event.h"
#include "cli/torch_part.h"
#include "data/files.h"
#include "data/manifest.h"
#include "data/model_folder.h"
#include "data/run_lock.h"
#include "data/saved_steps.h"
#include "data/tokens.h"
#include "spec/named_files.h"
#include "train/run_folder.h"
#include "train/run_question.h"
#include "train/weight_tensors.h"

namespace ferry {
namespace {

bool is_token_file(const std::string& source) { return source.ends_with(".tokens"); }

/// A file with something in it, or a folder that ferry_tools can read.
void require_data(const std::filesystem::path& source) {
  if (!std::filesystem::is_directory(source)) {
    require_content(source);
  } else if (!std::filesystem::exists(source / "state.json") &&
             !std::filesystem::exists(source / "dataset_dict.json")) {
    throw UserError(source.string() +
                    ": a folder without state.json; expected a file, or what save_to_disk wrote");
  }
}

/// The data is there, and what makes tokens of it.
void check_data(const Job& job, const ModelSpec& model) {
  bool only_tokens = true;
  for (const DataFiles* files : {&job.data.train, &job.data.eval}) {
    for (const DataFile& file : *files) {
      require_data(file.path);
      if (is_token_file(file.path)) {
        check_token_header(file.path, model.vocab);
      } else {
        only_tokens = false;
      }
    }
  }
  if (!only_tokens) require_tokenizer(job.model);
  const auto& chat_template = job.data.chat_template;
  if (chat_template && chat_template->find_first_of("./") != std::string::npos) {
    require_content(*chat_template);  // a file; ferry_tools knows the names
  }
}

/// Calls `read`, whose error is damage of the checkpoint: it is told with an older one that is
/// sound.
template <typename Read>
auto read_sound(const std::filesystem::path& checkpoint, const Job& job, const Read& read) {
  try {
    return read();
  } catch (const UserError& damage) {
    throw with_older_checkpoint(damage, job.out, *step_of(checkpoint));
  }
}

/// The manifest of a checkpoint, which is of the step in the folder's name.
Manifest manifest_of(const std::filesystem::path& checkpoint) {
  Manifest manifest = read_manifest(checkpoint);
  if (manifest.step == step_of(checkpoint)) return manifest;
  throw UserError(checkpoint.string() + ": damaged: its manifest is of step " +
                  std::to_string(manifest.step));
}

/// The checkpoint is whole by its headers and asks what the job asks, as far as the job says that.
void check_checkpoint(const Job& job, const ModelSpec& model, Start& start) {
  const std::filesystem::path& checkpoint = *start.checkpoint;
  const Manifest manifest = read_sound(checkpoint, job, [&] { return manifest_of(checkpoint); });
  changes_since(manifest.question, job_question(job, model), start.allowed, checkpoint);
  read_sound(checkpoint, job, [&] { require_weights(checkpoint, model); });
  start.done = {.steps = manifest.step, .sequences = manifest.sequences};
}

}  // namespace

Start check_start(Job job, const TrainCommand& command) {
  if (!command.resume && !command.allow.empty()) {
    throw UserError("--allow is for --resume: a new run has nothing to differ from");
  }
  Start start;
  start.allowed = allowed_names(command.allow);
  if (command.resume) {
    start.checkpoint = find_checkpoint(job.out, command.step);
  } else {
    require_unused(job.out);
  }
  const ModelSpec model = named_model(job);
  resolve_sequence(job, model);
  if (job.machine) require_drive_folders(named_machine(job));
  if (!command.plan.empty()) require_content(command.plan);
  check_data(job, model);
  if (start.checkpoint) {
    check_checkpoint(job, model, start);
  } else {
    require_weights(job.model, model);
  }
  require_space(model, job, start.done.steps);
  return start;
}

bool nothing_left(const Start& start, const Job& job, bool events) {
  if (!start.checkpoint || job.train.steps == 0 || start.done.steps < job.train.steps) return false;
  if (events) {
    write_event("finished", {{"steps", start.done.steps},
                             {"interrupted", false},
                             {"checkpoint", start.checkpoint->string()}});
    return true;
  }
  std::printf(
      "%s: nothing to do: %lld of %d steps are done\n  try: a larger train.steps, or train.epochs, "
      "to go on\n",
      start.checkpoint->c_str(), static_cast<long long>(start.done.steps), job.train.steps);
  return true;
}

// Both programs come through here: `ferry` refuses without loading torch, and gives the folder back
// before it goes on as `ferry-torch`, which takes and checks it again.
int run_train(const TrainCommand& command) {
  const Job job = read_job(command.job, command.overrides);
  require_trainable(job);
  const RunLock lock(job.out, command_line(command));
  const Start start = check_start(job, command);
  if (nothing_left(start, job, command.events)) return kDone;
  return train_from(job, start, command);
}

}  // namespace ferry
