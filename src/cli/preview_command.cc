#include "cli/cache_folder.h"
#include "cli/commands.h"
#include "cli/python_tools.h"
#include "spec/job.h"
#include "spec/model_spec.h"

namespace ferry {

int run_preview(const PreviewCommand& command) {
  Job job = read_job(command.job, command.overrides);
  if (job.data.sequence == 0) resolve_sequence(job, read_model_spec(job.model));
  std::vector<std::string> arguments = {"preview",    job.data.train,
                                        "--model",    job.model,
                                        "--sequence", std::to_string(job.data.sequence),
                                        "--samples",  std::to_string(command.samples),
                                        "--cache",    (cache_folder() / "tokens").string()};
  if (job.data.text_key) arguments.insert(arguments.end(), {"--text-key", *job.data.text_key});
  show_python_tool(arguments);
  return kDone;
}

}  // namespace ferry
