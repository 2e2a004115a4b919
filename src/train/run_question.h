// What the numbers of a run depend on, by name, so that a resumed run can tell what is different
// and nothing else is trained in silence. One table (run_question.cc) says of every key of a job,
// and of what a job does not say, whether a resumed run takes no notice, says so or refuses.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "spec/job.h"
#include "spec/machine.h"
#include "spec/model_spec.h"

namespace ferry {

/// What a resumed run does when something is another than before.
enum class WhenChanged {
  nothing,  // it moves no number
  said,     // goes on and says so: the schedule, or rounding
  named,    // refuses, unless the user names it: other rows, or sums in another order
  refused,  // refuses: the weights are of another network
};

/// Name -> value, both as people read them: "optim.lr" -> "1e-4".
using RunQuestion = std::map<std::string, std::string>;

/// What the job and the shape of its model say, without looking at data or machine. Requires: the
/// job's sequence is set.
RunQuestion job_question(const Job& job, const ModelSpec& model);

/// What only a run in progress knows; texts as RunQuestion has them.
struct RunFacts {
  std::string train_rows, eval_rows, held_out;
  std::string precision, threads, processor, torch, ferry;
};

/// All that the run's numbers depend on.
RunQuestion run_question(const Job& job, const ModelSpec& model, const RunFacts& facts);

/// One difference.
struct Change {
  std::string name, then, now;
};

/// What `now` asks otherwise than the checkpoint's `then`, in order of names; to be said. Throws
/// UserError that lists what cannot be, or is not among `allowed`.
std::vector<Change> changes_since(const RunQuestion& then, const RunQuestion& now,
                                  const std::vector<std::string>& allowed,
                                  const std::filesystem::path& checkpoint);

/// The full names of what `--allow` lists: "lr" is "optim.lr". Throws UserError for a word that is
/// no name, or the name of what cannot be allowed.
std::vector<std::string> allowed_names(const std::vector<std::string>& words);

/// What the table says of a name; of names that it does not have, `named`.
WhenChanged when_changed(const std::string& name);

/// "optim.lr: then 1e-4, now 1e-5"
std::string to_text(const Change& change);

}  // namespace ferry
