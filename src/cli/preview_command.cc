#include "cli/commands.h"
#include "cli/python_tools.h"
#include "spec/job.h"

namespace ferry {

int run_preview(const PreviewCommand& command) {
  const Job job = read_job(command.job, command.overrides);
  std::vector<std::string> arguments = {"preview",    job.data.train,
                                        "--model",    job.model,
                                        "--sequence", std::to_string(job.data.sequence),
                                        "--samples",  std::to_string(command.samples)};
  if (job.data.text_key) arguments.insert(arguments.end(), {"--text-key", *job.data.text_key});
  show_python_tool(arguments);
  return kDone;
}

}  // namespace ferry
