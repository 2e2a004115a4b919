#include "cli/start.h"

#include "cli/command_line.h"
#include "cli/torch_part.h"
#include "data/run_lock.h"
#include "train/run_folder.h"

namespace ferry {

Start check_start(const Job& job, const TrainCommand& command) {
  Start start;
  if (command.resume) {
    start.checkpoint = find_checkpoint(job.out, command.step);
  } else {
    require_unused(job.out);
  }
  return start;
}

// Both programs come through here: `ferry` refuses without loading torch, and gives the folder back
// before it goes on as `ferry-torch`, which takes and checks it again.
int run_train(const TrainCommand& command) {
  const Job job = read_job(command.job, command.overrides);
  require_trainable(job);
  const RunLock lock(job.out, command_line(command));
  const Start start = check_start(job, command);
  return train_from(start, command);
}

}  // namespace ferry
