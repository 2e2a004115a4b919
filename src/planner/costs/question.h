// What the planner is asked: a model, a machine, a profile and a batch, within budgets.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "plan/plan.h"
#include "spec/device_budgets.h"
#include "spec/harmony_profile.h"
#include "spec/job.h"
#include "spec/machine.h"
#include "spec/model_spec.h"
#include "spec/profile.h"
#include "spec/shared_memory.h"

namespace ferry {

/// A drive that the machine may have beside what is said of it.
struct PossibleDrive {
  Rate read, write;
  bool here = false;      // a job without its rates gets what is measured
  bool measured = false;  // that has been measured; false: the rates are assumed
};

/// Everything a plan depends on. The command line fills it from a job.
struct PlanQuestion {
  ModelSpec model;  // without blocks: the profile's chain stands for it, and nothing can train
  Machine machine;
  Profile profile;  // of the same micro-batch size, sequence and precision
  int micro_batches = 1;
  int micro_batch_size = 1;
  int sequence = 1;
  Precision precision = Precision::fp32;
  Precision gradients = Precision::fp32;  // what updates take of a step's gradient sums
  bool clips = true;
  /// Of the ways to clip: backwards run twice, at first for the norm alone, and their sums need not
  /// wait for that. A schedule says of which blocks (StreamSchedule::again_from). Jobs do not ask
  /// for it; strategies try it where sums have no room to wait.
  bool norm_first = false;
  /// Where DRAM is short sums lie where inputs were (write/host_slots.h). Likewise of strategies.
  bool shares_dram = true;
  /// The micro-batches pass in so many rounds, each forward and backward: DRAM has inputs of one
  /// round, and sums from one to the next. Likewise, where there are no drives.
  int rounds = 1;
  PlanMode mode = PlanMode::train;
  /// Training stops now and then to evaluate: the answer has a plan for that too, in the same
  /// memory.
  bool evaluates = false;
  std::string strategy = "auto";  // auto, or a name of strategies.h's table
  PlanJob options;
  PapersJob papers;                       // of a paper's program; the planner does not look at it
  std::optional<HarmonyProfile> harmony;  // the profile, when it came in Harmony's form: all sizes
  /// Of no use unless faster than this: strategies leave out shapes that cannot be.
  std::optional<Micros> faster_than = {};
  /// Whether anything fits is all that is asked: the first plan that does is the answer.
  bool any_plan = false;
  std::vector<Budget> device_budgets;  // in the machine's order; one without: its memory
  /// Where host and simulated devices divide one memory, that of this box: what they take together
  /// at most, whatever their budgets are.
  std::optional<SharedMemory> shared;
  Bytes host_budget;
  std::string host_budget_source;        // where the limit comes from, for messages: "budget.host,
                                         // job.yaml:10"
  std::string drive_budget_source = {};  // of the drives' capacity; empty: the machine file
  DriveBudgets drive_budgets = {};  // of the job, of which the machine has its drives; empty: none
  /// A drive that the job could have with `budget.drive`, where it has none: for remedies.
  std::optional<PossibleDrive> possible_drive = {};
};

/// Gives every device the same budget; what was said of where it comes from stays.
void set_device_budgets(PlanQuestion& question, Bytes each);

/// What ferry may take of a device: its budget or its memory, whichever is less.
Budget device_budget(const PlanQuestion& question, int device);

/// Whether that is the same for all devices.
bool equal_budgets(const PlanQuestion& question);

/// The device with the least of them, the first of several: what papers' programs count on.
int least_device(const PlanQuestion& question);

/// Whether all gradient sums and updates wait for the step's norm.
inline bool sums_wait(const PlanQuestion& question) {
  return question.clips && !question.norm_first;
}

/// The most micro-batches that a round has.
inline int batches_at_once(const PlanQuestion& question) {
  return (question.micro_batches + question.rounds - 1) / question.rounds;
}

/// The round's first micro-batch; of the one behind the last round: how many there are.
inline int first_of_round(const PlanQuestion& question, int round) {
  return static_cast<int>(std::int64_t{round} * question.micro_batches / question.rounds);
}

/// The question with norm_first. Nothing is kept for backward, since most run twice.
PlanQuestion with_norm_first(PlanQuestion question);

/// Of a step, padding included; none where only samples are counted: Harmony's profiles have no
/// sequence.
std::optional<double> tokens_of(const PlanQuestion& question);

/// Throws UserError for a question whose parts do not belong together.
void check_question(const PlanQuestion& question);

}  // namespace ferry
