#include "train/run_folder.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/saved_steps.h"

namespace ferry {

namespace fs = std::filesystem;

fs::path checkpoints_in(const fs::path& out) { return out / kCheckpointsFolder; }

bool holds_run(const fs::path& out) {
  std::error_code ignored;
  return fs::exists(out / "job.yaml", ignored) || !saved_steps(checkpoints_in(out)).empty();
}

void require_unused(const fs::path& out) {
  const std::vector<fs::path> saved = saved_steps(checkpoints_in(out));
  if (saved.empty()) return;
  throw UserError(saved.back().string() +
                  " was saved by an earlier run\n  try: --resume to go on from it, another `out`, "
                  "or remove that folder");
}

fs::path find_checkpoint(const fs::path& out, std::optional<std::int64_t> step) {
  const fs::path root = checkpoints_in(out);
  const std::vector<fs::path> saved = saved_steps(root);
  if (saved.empty()) {
    throw UserError("--resume: no checkpoint in " + root.string() +
                    "; leave --resume out to start anew");
  }
  if (!step) return saved.back();
  const auto found = std::ranges::find(saved, step, step_of);
  if (found != saved.end()) return *found;
  std::string there;
  for (const fs::path& path : saved) {
    there += (there.empty() ? "" : ", ") + std::to_string(*step_of(path));
  }
  throw UserError("--resume " + std::to_string(*step) + ": no such checkpoint in " + root.string() +
                  "; those of steps " + there + " are there");
}

}  // namespace ferry
