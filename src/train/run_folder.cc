#include "train/run_folder.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/free_space.h"
#include "data/manifest.h"
#include "data/model_folder.h"
#include "data/safetensors_writer.h"
#include "data/saved_steps.h"
#include "plan/plan.h"

namespace ferry {
namespace {

namespace fs = std::filesystem;

// Of headers and manifest per parameter, for each of the tensors that belong to it.
constexpr Bytes kNamesPerParameter = 1_KiB;

// What a run writes from its start to its end, and `ferry plan`.
constexpr std::array kOwnFiles = {"job.yaml",         "plan",      "machine.yaml", "profile.yaml",
                                  "environment.json", "log.jsonl", "summary.json", "timeline.json"};

bool begins_with(const fs::path& file, std::string_view text) {
  std::ifstream stream(file, std::ios::binary);
  std::string begin(text.size(), '\0');
  return stream.read(begin.data(), std::ssize(begin)) && begin == text;
}

/// What a folder and all below it hold.
Bytes size_of(const fs::path& folder) {
  Bytes total;
  if (!fs::is_directory(fs::symlink_status(folder))) return total;
  for (const auto& item : fs::recursive_directory_iterator(folder)) {
    if (item.is_regular_file()) total += Bytes{static_cast<std::int64_t>(item.file_size())};
  }
  return total;
}

/// `count` times `size`, or the largest size where that is beyond it.
Bytes times(std::int64_t count, Bytes size) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  return size.count > kMost / count ? Bytes{kMost} : count * size;
}

/// Their sum, or the largest size.
Bytes plus(Bytes a, Bytes b) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  return a.count > kMost - b.count ? Bytes{kMost} : a + b;
}

/// How many more checkpoints than now the run will have at once at most.
std::int64_t checkpoints_to_come(const Job& job, std::int64_t done) {
  const TrainJob& train = job.train;
  if (train.save_every == 0 && train.save_minutes == 0 && !train.save_last) return 0;
  const std::vector<fs::path> saved = saved_steps(checkpoints_in(job.out));
  const std::int64_t kept =
      std::ranges::count_if(saved, [&](const fs::path& path) { return *step_of(path) <= done; });
  const std::int64_t most = std::max<std::int64_t>(train.keep + 1 - kept, 1);
  const bool steps_known = train.steps > 0;
  return steps_known ? std::clamp<std::int64_t>(train.steps - done, 1, most) : most;
}

}  // namespace

fs::path checkpoints_in(const fs::path& out) { return out / kCheckpointsFolder; }

bool holds_run(const fs::path& out) {
  return begins_with(out / "job.yaml", kRunsJob) || !saved_steps(checkpoints_in(out)).empty();
}

void require_own_files(const fs::path& out) {
  const bool has_job = begins_with(out / "job.yaml", kRunsJob);
  const bool has_plan = begins_with(out / "plan", kPlanHeader);
  for (const char* name : kOwnFiles) {
    std::error_code ignored;
    if (!fs::exists(fs::symlink_status(out / name, ignored))) continue;
    const std::string_view file = name;
    const bool own = file == "job.yaml" ? has_job : file == "plan" ? has_plan : has_job || has_plan;
    if (own) continue;
    throw UserError(
        (out / name).string() +
        " is there and is not of a run of ferry, which would replace it\n  try: another "
        "`out`, or move that file away");
  }
}

void require_unused(const fs::path& out) {
  require_own_files(out);
  std::vector<fs::path> saved = saved_steps(checkpoints_in(out));
  if (saved.empty()) saved = earlier_steps(checkpoints_in(out));
  if (saved.empty()) return;
  throw UserError(saved.back().string() +
                  " was saved by an earlier run\n  try: --resume to go on from it, another `out`, "
                  "or remove that folder");
}

fs::path find_checkpoint(const fs::path& out, std::optional<std::int64_t> step) {
  const fs::path root = checkpoints_in(out);
  const std::vector<fs::path> saved = saved_steps(root);
  if (const auto earlier = earlier_steps(root); saved.empty() && !earlier.empty()) {
    throw UserError(earlier.back().string() +
                    " was saved by ferry 0.1, which did not record what a run's numbers depend on"
                    "\n  try: a new run with model: " +
                    earlier.back().string());
  }
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

UserError with_older_checkpoint(const UserError& damage, const fs::path& out, std::int64_t step) {
  std::vector<fs::path> saved = saved_steps(checkpoints_in(out));
  for (; !saved.empty(); saved.pop_back()) {
    const std::int64_t older = *step_of(saved.back());
    if (older >= step) continue;
    try {
      verify_checksums(saved.back(), read_manifest(saved.back()));
    } catch (const UserError&) {
      continue;
    }
    return UserError(damage.what() + std::string("\n  try: --resume ") + std::to_string(older) +
                     ", whose checksums are right: " + saved.back().string());
  }
  return UserError(damage.what() + std::string("\n  no older checkpoint is sound"));
}

Bytes checkpoint_size(const ModelSpec& model, const Job& job) {
  std::int64_t tensors = 0;
  for (const BlockSpec& block : model.blocks) tensors += std::ssize(block.params);
  // bf16: weights, exact master and two moments; fp32: weights, which are the master, and moments.
  const std::int64_t per_parameter = job.train.precision == Precision::fp32 ? 12 : 14;
  return per_parameter * Bytes{parameters(model)} + tensors * kNamesPerParameter +
         model_files_size(job.model);
}

namespace {

/// What is wanted of one file system.
struct SpaceNeed {
  fs::path folder;  // one of those on it
  dev_t device = 0;
  Bytes need;
  Bytes leaving;     // what goes before anything comes
  std::string what;  // for messages
};

/// A folder, or the nearest one above that is there, and its file system.
struct FolderThere {
  fs::path path;
  dev_t device = 0;
};

FolderThere nearest_to(const fs::path& folder) {
  fs::path there = fs::absolute(folder);
  struct stat found = {};
  while (stat(there.c_str(), &found) != 0) {
    if (errno != ENOENT || !there.has_relative_path()) {
      throw system_error("cannot look for space: " + folder.string(), errno);
    }
    there = there.parent_path();
  }
  return {there, found.st_dev};
}

Bytes size_of_unfinished(const fs::path& checkpoints) {
  Bytes size;
  try {
    for (const fs::path& path : unfinished_steps(checkpoints)) size += size_of(path);
  } catch (const fs::filesystem_error& error) {
    throw ResourceError(std::string("cannot look for space: ") + error.what());
  }
  return size;
}

/// At most: the optimizer's, or a shard of it.
Bytes largest_file_of_checkpoint(const ModelSpec& model, const Job& job) {
  // bf16: exact master and two moments; fp32: moments.
  const std::int64_t per_parameter = job.train.precision == Precision::fp32 ? 8 : 12;
  Bytes whole;
  Bytes shard = kShardSize;  // a tensor beyond it has one of its own
  for (const BlockSpec& block : model.blocks) {
    for (const ParamSpec& param : block.params) {
      whole += per_parameter * Bytes{param.numel()} + kNamesPerParameter;
      shard = std::max(shard, 4 * Bytes{param.numel()} + kNamesPerParameter);
    }
  }
  return std::min(whole, shard);
}

void require_file_size(const ModelSpec& model, const Job& job) {
  const Bytes need = largest_file_of_checkpoint(model, job);
  rlimit limit = {};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || static_cast<rlim_t>(need.count) <= limit.rlim_cur) {
    return;
  }
  throw ResourceError(checkpoints_in(job.out).string() + ": a file of a checkpoint needs " +
                      std::to_string(need.count) + " bytes, files may have " +
                      std::to_string(limit.rlim_cur) +
                      " (ulimit -f)\n  try: ulimit -f unlimited, before ferry train");
}

}  // namespace

std::string lack_of_space(const ModelSpec& model, const Job& job) {
  const fs::path folder = checkpoints_in(job.out);
  const Bytes need = checkpoint_size(model, job);
  try {
    const Bytes have = free_space(nearest_to(folder).path);
    if (need <= have) return {};
    return folder.string() + " lacks " + to_string(need - have) + ": a checkpoint takes " +
           to_string(need) + ", " + to_string(have) + " are free";
  } catch (const std::runtime_error&) {
    return {};
  }
}

void require_space(const ModelSpec& model, const Job& job, std::int64_t done,
                   std::span<const SwapNeed> swap) {
  const std::int64_t count = checkpoints_to_come(job, done);
  const Bytes size = checkpoint_size(model, job);
  std::vector<SpaceNeed> needs;
  const auto add = [&](const fs::path& folder, Bytes need, const std::string& what) -> SpaceNeed& {
    const dev_t device = nearest_to(folder).device;
    const auto same = std::ranges::find(needs, device, &SpaceNeed::device);
    if (same == needs.end()) return needs.emplace_back(folder, device, need, Bytes{}, what);
    same->need = plus(same->need, need);
    same->what += ", and " + what;
    return *same;
  };
  if (count > 0) {
    require_file_size(model, job);
    const fs::path checkpoints = checkpoints_in(job.out);  // perhaps a link to another drive
    add(checkpoints, times(count, size),
        std::to_string(count) + " more checkpoints of " + to_string(size) +
            " (train.keep, and one being written)")
        .leaving = size_of_unfinished(checkpoints);
  }
  for (const SwapNeed& file : swap) {
    add(file.folder, file.size, "a swap file of " + to_string(file.size));
  }
  for (const SpaceNeed& need : needs) {
    const Bytes have = free_space(nearest_to(need.folder).path) + need.leaving;
    if (need.need <= have) continue;
    throw ResourceError(need.folder.string() + ": " + need.what + " need " +
                        std::to_string(need.need.count) + " bytes, the drive has " +
                        std::to_string(have.count) +
                        " free\n  try: free some space, a smaller train.keep, or another `out`");
  }
}

}  // namespace ferry
