// From a job file to what the planner and the trainer ask for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "data/tokens.h"
#include "planner/planner.h"
#include "spec/job.h"
#include "spec/machine.h"
#include "spec/model_spec.h"

namespace ferry {

/// A job with everything read that it names; its `train.precision` is set, and its `data.sequence`
/// where it has a model.
struct Question {
  Job job;
  PlanQuestion plan;
  std::vector<std::string> profile_remarks = {};  // of a measured profile: which blocks were not
};

/// Reads job, model configuration and machine, and gets a profile: the file that the job names, a
/// measurement when the machine is here, else an estimate. `precision`: that of a run that goes on;
/// else `auto` is decided here. `listener` hears what takes time and what was decided.
Question read_question(const std::string& job_file, const std::vector<std::string>& overrides,
                       PhaseListener& listener, std::optional<Precision> precision = std::nullopt);

/// The text of OUT/profile.yaml: a measured profile with its remarks; empty for another one.
std::string profile_record(const Question& question);

/// `planner` for the job's questions: what it throws about a key says where the job gave it.
/// `job` must outlive it.
Planner with_origins(Planner planner, const Job& job);

/// Where a job's tokens are.
struct Tokens {
  std::shared_ptr<TokenFile> file;
  Bytes peak;             // what the processes that made them held of DRAM; 0: none were needed
  std::int64_t held_out;  // the last samples of the file that are not learned from
  std::optional<std::filesystem::path>
      chat_template;  // of its conversations; none: the tokenizer's own, or there are none
};

/// The arguments with which ferry_tools tokenises or previews `files` as the job says.
std::vector<std::string> tokenising_arguments(const Job& job, const DataFiles& files);

/// The token file of data files, made when it is not in the cache; a single token file is its own.
/// `held_out` is the part of each file's rows, the last ones, that is kept from training; `key` of
/// the job names the files, for messages.
Tokens token_file(const Job& job, const char* key, const DataFiles& files, double held_out);

}  // namespace ferry
