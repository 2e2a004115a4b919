#include "spec/job.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "spec/job_fields.h"
#include "spec/model_spec.h"
#include "spec/nearest.h"
#include "spec/quantity.h"

namespace ferry {
namespace {

constexpr const char* kCommandLine = "command line";  // as an origin
constexpr int kUsualSequence = 1024;                  // tokens, where the model takes as many

// "jobs/7b.yaml:12: " or "command line: "; the file when the key was given nowhere.
std::string where(const Job& job, const std::string& source, std::string_view key) {
  const auto found = job.origins.by_key.find(key);
  return (found == job.origins.by_key.end() ? source : found->second.text) + ": ";
}

void check_strategy(const Job& job, const std::string& source) {
  const std::vector<std::string> known = known_strategies();
  if (std::ranges::find(known, job.strategy) != known.end()) return;
  const std::string place = where(job, source, "strategy");
  const std::string near = nearest(job.strategy, known);
  throw UserError(place + "unknown strategy '" + job.strategy + "'; " +
                  (near.empty() ? "" : "did you mean '" + near + "'? ") + "expected one of " +
                  joined(known));
}

void check_passes(const Job& job, const std::string& source) {
  const std::vector<std::string> known = known_passes();
  for (const std::string& name : listed_names(job.plan.without)) {
    if (std::ranges::find(known, name) != known.end()) continue;
    const std::string near = nearest(name, known);
    throw UserError(
        where(job, source, "plan.without") + "unknown pass '" + name + "' in 'plan.without'; " +
        (near.empty() ? "" : "did you mean '" + near + "'? ") + "expected any of " + joined(known));
  }
}

/// Of two keys that say one thing and were both given, whether `key` holds and not `other`: the
/// command line's wins over the file's. Throws UserError when both stand in the same.
bool wins(const Job& job, const std::string& source, std::string_view key, std::string_view other) {
  const bool overrides = origin(job, key) == kCommandLine;
  if (overrides == (origin(job, other) == kCommandLine)) {
    throw UserError(where(job, source, key) + "'" + std::string(key) + "' and '" +
                    std::string(other) + "' exclude each other; expected one of them");
  }
  return overrides;
}

/// Leaves one of `steps` and `epochs`, and one of `warmup_steps` and `warmup_ratio`.
void settle_alternatives(Job& job, const std::string& source) {
  TrainJob& train = job.train;
  if (train.steps > 0 && train.epochs > 0) {
    const bool by_epochs = wins(job, source, "train.epochs", "train.steps");
    if (by_epochs) {
      train.steps = 0;
    } else {
      train.epochs = 0;
    }
  }
  OptimJob& optim = job.optim;
  if (!optim.warmup_steps || optim.warmup_ratio == 0) return;
  const bool ratio_given = job.origins.by_key.contains("optim.warmup_ratio");
  if (ratio_given && wins(job, source, "optim.warmup_ratio", "optim.warmup_steps")) {
    optim.warmup_steps.reset();
  } else {
    optim.warmup_ratio = 0;
  }
}

// What no single key can say.
void check(const Job& job, const std::string& source) {
  const bool profile_file = job.plan.profile != "auto" && job.plan.profile != "estimate";
  if (job.model.empty() && !profile_file) {
    throw UserError(source +
                    ": 'model' is missing; expected a Hugging Face directory, as key in "
                    "the file or model=... on the command line (without a model plan.profile has "
                    "to be a file with the blocks)");
  }
  check_strategy(job, source);
  check_passes(job, source);
  if (!job.data.eval.empty() && job.data.eval_fraction > 0) {
    throw UserError(where(job, source, "data.eval_fraction") +
                    "'data.eval_fraction' and 'data.eval' exclude each other; expected one of "
                    "them");
  }
  if (job.train.eval_every > 0 && job.data.eval.empty() && job.data.eval_fraction == 0) {
    throw UserError(where(job, source, "train.eval_every") +
                    "'train.eval_every' needs something to evaluate on; set 'data.eval' to a "
                    "file or 'data.eval_fraction' to a part of the rows");
  }
}

}  // namespace

Job read_job(const std::string& path, std::span<const std::string> overrides) {
  return parse_job(read_text_file(path), path, overrides);
}

Job parse_job(const std::string& text, const std::string& source,
              std::span<const std::string> overrides) {
  Job job;
  const std::vector<Field> fields = job_fields(job);
  const Node document = parse_document(text, source);
  for (const auto& [key, line] : read_fields(document, fields, source, false)) {
    job.origins.by_key[key].text = place_of(source, line);
  }
  for (const std::string& assignment : overrides) {
    job.origins.by_key[apply_override(assignment, fields)].text = kCommandLine;
  }
  settle_alternatives(job, source);
  check(job, source);
  if (job.out.empty()) {
    job.out = (std::filesystem::path("runs") / std::filesystem::path(source).stem()).string();
  }
  return job;
}

std::vector<std::string> listed_names(const std::string& list) {
  constexpr const char* kBetween = ", ";
  std::vector<std::string> names;
  std::size_t begin = list.find_first_not_of(kBetween);
  while (begin != std::string::npos) {
    const std::size_t end = list.find_first_of(kBetween, begin);
    names.push_back(list.substr(begin, end - begin));
    begin = list.find_first_not_of(kBetween, end);
  }
  return names;
}

void require_trainable(const Job& job) {
  const auto missing = [](const std::string& key, const std::string& expected) {
    throw UserError("'" + key + "' is missing; training needs " + expected +
                    ", as key in the job " + "file or " + key + "=... on the command line");
  };
  if (job.papers.pure) {
    throw UserError(origin(job, "papers.pure") +
                    ": a paper's program only tells time and cannot train; leave papers.pure off");
  }
  if (job.model.empty()) missing("model", "a Hugging Face directory");
  if (job.data.train.empty()) missing("data.train", "a file to learn from");
  if (job.train.steps < 1 && job.train.epochs == 0) {
    missing("train.steps", "at least one step, or train.epochs");
  }
}

void resolve_sequence(Job& job, const ModelSpec& model) {
  if (job.data.sequence == 0) {
    job.data.sequence =
        static_cast<int>(std::min<std::int64_t>(kUsualSequence, longest_sequence(model)));
  }
  check_sequence(model, job.data.sequence);
}

void resolve_steps(Job& job, std::int64_t rows, const StepsDone& done) {
  TrainJob& train = job.train;
  if (train.epochs == 0) return;
  const double per_step = static_cast<double>(train.micro_batches) * train.micro_batch_size;
  const double left =
      train.epochs * static_cast<double>(rows) - static_cast<double>(done.sequences);
  const double steps = static_cast<double>(done.steps) + std::max(0.0, std::ceil(left / per_step));
  if (steps > kManySteps) {
    throw UserError(where(job, "train.epochs", "train.epochs") + real_text(train.epochs) +
                    " epochs of " + std::to_string(rows) + " rows are " + real_text(steps) +
                    " steps; expected at most " + real_text(kManySteps));
  }
  train.steps = std::max(1, static_cast<int>(steps));
  train.epochs = 0;
}

int warmup_steps(const OptimJob& optim, int steps) {
  return optim.warmup_steps.value_or(static_cast<int>(std::ceil(optim.warmup_ratio * steps)));
}

std::string meant_key(std::string_view name) {
  Job job;
  return meant_field(name, job_fields(job));
}

std::string origin(const Job& job, std::string_view key) {
  const auto found = job.origins.by_key.find(key);
  return found == job.origins.by_key.end() ? "default" : found->second.text;
}

UserError with_origin(const Job& job, const JobKeyError& error) {
  const auto found = job.origins.by_key.find(error.key());
  if (found == job.origins.by_key.end()) return error;
  return UserError(found->second.text + ": " + error.what());
}

std::string to_yaml(const Job& job) {
  Job copy = job;
  return write_fields(job_fields(copy), 0, true);
}

std::vector<std::string> job_keys() {
  Job job;
  std::vector<std::string> keys;
  for (const Field& field : job_fields(job)) keys.push_back(field.name);
  return keys;
}

std::string value_of(const Job& job, std::string_view key) {
  Job copy = job;
  for (const Field& field : job_fields(copy)) {
    if (field.name == key) return field_text(field);
  }
  FERRY_UNREACHABLE("a job has no such key");
}

std::string job_reference() {
  Job defaults;
  return reference_table(job_fields(defaults));
}

}  // namespace ferry
