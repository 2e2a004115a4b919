// What a user asks for: the job file, with `key=value` overrides from the command line.
//
// One table of keys (job_fields.h) gives parsing, bounds, overrides, the resolved job and the
// reference in docs/formats/job.md, so that none of them can disagree.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "spec/data_files.h"
#include "spec/drive_budget.h"
#include "spec/origin.h"
#include "spec/precision.h"
#include "spec/sizes.h"

namespace ferry {

enum class Schedule { constant, linear, cosine };

/// What becomes of a row that cannot be read, has no meaning, or that a template refuses.
enum class RowErrors { stop, skip };

struct DataJob {
  DataFiles train;           // none: nothing to learn from
  DataFiles eval;            // none: see `eval_fraction`; all weights are 1
  double eval_fraction = 0;  // of train's rows, the last ones; only without `eval`
  int sequence = 0;          // tokens; 0: left to the model, see resolve_sequence()
  bool packing = false;
  bool shuffle = true;
  std::optional<std::string> text_key;
  std::optional<std::string> chat_template;  // a name or a file; none: the tokenizer's, or ChatML
  RowErrors on_error = RowErrors::stop;

  bool operator==(const DataJob&) const = default;
};

/// Who else hears of a run while it goes on.
enum class ReportTo { none, tensorboard };

struct TrainJob {
  int steps = 0;      // 0: by `epochs`, see resolve_steps()
  double epochs = 0;  // 0: by `steps`; one of the two is 0
  int micro_batches = 1;
  int micro_batch_size = 1;               // sequences
  std::optional<Precision> precision;     // none: auto, the faster one on the first device
  Precision gradients = Precision::fp32;  // what updates take of a step's gradient sums
  std::int64_t seed = 1;
  int eval_every = 0;        // steps; 0: never
  int save_every = 0;        // steps; 0: not by steps
  double save_minutes = 30;  // 0: not by time
  bool save_last = true;     // at the end of the run
  int keep = 2;              // checkpoints
  int log_every = 1;         // steps
  ReportTo report_to = ReportTo::none;

  bool operator==(const TrainJob&) const = default;
};

struct OptimJob {
  std::string name = "adamw";
  double lr = 2e-5;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  double clip = 1;  // the largest global norm; 0: no clipping
  Schedule schedule = Schedule::cosine;
  std::optional<int> warmup_steps = {};  // none: by `warmup_ratio`; where there are any that is 0
  double warmup_ratio = 0.03;            // of all steps

  bool operator==(const OptimJob&) const = default;
};

struct BudgetJob {
  std::optional<Sizes> device;  // of each device; none, or no entry: the machine's
  std::optional<Bytes> host;    // none: the machine's
  DriveBudgets drive;           // none: the machine's, see drive_budgets.h

  bool operator==(const BudgetJob&) const = default;
};

enum class Partitioner { automatic, search, mip };
enum class MapRule { automatic, cross, sequential, v };
enum class ActivationRule { automatic, recompute, keep, swap, swap_to_drive };

/// The share of steps that clipping is expected to scale where nothing is known of the run.
constexpr double kClippedSteps = 0.2;

/// What is asked of the planner beside the strategy. What a strategy has no use for it ignores.
struct PlanJob {
  std::string profile = "auto";                     // auto, estimate, or a file
  std::optional<std::vector<int>> stages;           // blocks of each stage; none: searched
  std::optional<std::vector<int>> backward_stages;  // none: as `stages`, or searched
  std::optional<std::vector<int>> devices;          // of each stage, or slot; none: by `map`
  MapRule map = MapRule::automatic;
  Partitioner partition = Partitioner::automatic;
  int chunks = 0;  // interleaved: stages per device; 0: two
  int round = 0;   // roundpipe: micro-batches per round; 0: chosen
  ActivationRule activations = ActivationRule::automatic;
  std::optional<double> clipped;  // of the steps, the share whose gradients clipping is expected to
                                  // scale; none: that of the run that goes on, or kClippedSteps
  std::string without;            // names of passes that do not run (pass_names.h), between commas

  bool operator==(const PlanJob&) const = default;
};

/// Where pure `zero` keeps weights and optimizer states.
enum class StatesRule { host, drives };

/// What is asked of a paper's program, which only tells time. Beside these, programs read PlanJob.
struct PapersJob {
  /// The paper's program and cost model alone, where it leaves things out.
  bool pure = false;
  bool flush = true;       // roundpipe; false: the next step follows at once
  int window = 0;          // async-1f1b: micro-batches in flight; 0: as deep as the pipeline
  int forward_batch = 0;   // harmony: U_f, samples; 0: searched
  int backward_batch = 0;  // harmony: U_b
  std::string packing = "time, memory, greedy, reuse";  // harmony: packing methods of the search
  bool prefetch = true;  // harmony: the estimator's variant, and what the search ranks by
  std::optional<std::vector<std::string>> order;  // pipelines: by device, "F0 B0"; none: the rule's
  std::optional<std::vector<int>> offsets;        // async-1f1b, with `order`: microseconds
  bool shared_links = false;                      // mobius: on links that devices share
  StatesRule states = StatesRule::host;           // zero
  // The rest are fuyou's.
  Micros elementwise = {};        // of a layer's forward of a micro-batch, beside its products
  std::optional<Bytes> swapped;   // activations of a step; none: as `plan.activations` says
  bool update_on_drives = false;  // the host's update keeps the drives from moving
  double launch_stall = 0;        // fuyou-naive: of a handler's time, how much the GPU waits
  double overlap_stretch = 1;     // fuyou-naive: a handler's time beside backward over that alone

  bool operator==(const PapersJob&) const = default;
};

struct ModelSpec;

/// Every value is within the bounds of its key. Paths are as written: relative to the current
/// directory, not to the job file.
struct Job {
  std::string model;  // empty: none; then plan.profile is a file that has the chain
  DataJob data;
  TrainJob train;
  OptimJob optim;
  std::optional<std::string> machine;  // none: this_machine()
  BudgetJob budget;
  std::string strategy = "auto";
  PlanJob plan;
  PapersJob papers;
  int threads = 0;  // per device and kernel; 0: as the machine says
  std::string out;  // default: runs/ and the job file's name

  Origins origins;  // of the keys that were given

  bool operator==(const Job&) const = default;
};

/// Reads a job file and then applies overrides ("train.steps=10") in their order.
/// Throws UserError with file and line, or "command line:", what was expected and what was found.
Job read_job(const std::string& path, std::span<const std::string> overrides = {});

/// Throws UserError unless the job says what `ferry train` needs: model, data and a length.
void require_trainable(const Job& job);

/// Sets `data.sequence` of a job that leaves it out: 1024 tokens, or as many as the model takes.
/// Throws UserError when the model does not take the sequence that the job gives.
void resolve_sequence(Job& job, const ModelSpec& model);

/// What a run that goes on has behind it, be it with batches of other sizes.
struct StepsDone {
  std::int64_t steps = 0;
  std::int64_t sequences = 0;
};

/// Sets `train.steps` of a job that gives `train.epochs`, for `rows` sequences per epoch: those
/// done and as many more as reach the end of the last epoch. Throws UserError when they are too
/// many to count.
void resolve_steps(Job& job, std::int64_t rows, const StepsDone& done = {});

/// The steps over which the learning rate rises, of a run of `steps`.
int warmup_steps(const OptimJob& optim, int steps);

/// The same from text; `source` stands for the file in messages and in the default of `out`.
Job parse_job(const std::string& text, const std::string& source,
              std::span<const std::string> overrides = {});

/// An error about a key behind where the job gave that key: "jobs/7b.yaml:12: plan.devices:
/// expected ..."; as it is when the job did not.
UserError with_origin(const Job& job, const JobKeyError& error);

/// The key that `name` may stand for: "optim.lr" for "lr", "learning_rate" or "optim.lrr"; empty
/// when none is near.
std::string meant_key(std::string_view name);

/// Where `key` ("budget.device") was set: "jobs/7b.yaml:12", "command line" or "default".
std::string origin(const Job& job, std::string_view key);

/// The resolved job: every key with its value. parse_job() reads it back to an equal Job.
std::string to_yaml(const Job& job);

/// The keys, in the order of docs/formats/job.md, and what one is set to, as to_yaml() writes it.
std::vector<std::string> job_keys();
std::string value_of(const Job& job, std::string_view key);

/// The table of docs/formats/job.md: key, value, default, meaning.
std::string job_reference();

/// The names of a list such as "rings, activations".
std::vector<std::string> listed_names(const std::string& list);

/// As written in job files: "constant"; "auto" for `automatic`; "swap-to-drive".
std::string to_string(RowErrors choice);
std::string to_string(Schedule schedule);
std::string to_string(ReportTo report_to);
std::string to_string(Partitioner partitioner);
std::string to_string(MapRule rule);
std::string to_string(ActivationRule rule);
std::string to_string(StatesRule rule);

}  // namespace ferry
