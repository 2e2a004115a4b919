#include "base/error.h"
#include "cli/commands.h"
#include "cli/python_tools.h"
#include "cli/question.h"
#include "spec/job.h"
#include "spec/named_files.h"
#include "spec/quantity.h"

namespace ferry {
namespace {

/// The job whose data is looked at: the named one, or one of a data file and a model alone.
Job job_to_preview(const PreviewCommand& command) {
  if (command.model.empty()) return read_job(command.source, command.overrides);
  std::vector<std::string> keys = {"model=" + command.model, "data.train=" + command.source};
  keys.insert(keys.end(), command.overrides.begin(), command.overrides.end());
  return parse_job("", "command line", keys);
}

}  // namespace

int run_preview(const PreviewCommand& command) {
  Job job = job_to_preview(command);
  if (job.data.train.empty() || job.model.empty()) {
    throw UserError(command.source +
                    ": a preview needs 'model' and 'data.train'; set them in the job, or look at "
                    "a file without one: ferry data preview FILE --model DIR");
  }
  if (job.data.sequence == 0) resolve_sequence(job, named_model(job));
  std::vector<std::string> arguments = {"preview", "--samples=" + std::to_string(command.samples),
                                        "--held-out=" + real_text(job.data.eval_fraction)};
  const std::vector<std::string> rest = tokenising_arguments(job, job.data.train);
  arguments.insert(arguments.end(), rest.begin(), rest.end());
  show_python_tool(arguments);
  return kDone;
}

}  // namespace ferry
