#include "data/saved_steps.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "data/files.h"

namespace ferry {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kTemporary = ".tmp";
constexpr std::string_view kAside = ".later";

std::string folder_name(std::int64_t step) {
  char name[64];
  std::snprintf(name, sizeof name, "step-%06jd", static_cast<std::intmax_t>(step));
  return name;
}

/// Removes a checkpoint. It loses its name first, so that half of one is never taken for whole.
void remove_checkpoint(const fs::path& path) {
  fs::path dying = path;
  dying += kTemporary;
  fs::remove_all(dying);
  fs::rename(path, dying);
  fs::remove_all(dying);
}

/// Gives `temporary` the name `final_path`; a folder that has it already is removed.
void take_name(const fs::path& temporary, const fs::path& final_path) {
  if (renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, final_path.c_str(), RENAME_NOREPLACE) == 0) {
    return;
  }
  if (errno != EEXIST && errno != EINVAL) {
    throw system_error("cannot rename " + temporary.string() + " to " + final_path.string(), errno);
  }
  const int result =
      renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, final_path.c_str(), RENAME_EXCHANGE);
  if (result == 0) {
    fs::remove_all(temporary);  // now the older checkpoint
    return;
  }
  // A file system without these flags: for a moment the step has no checkpoint.
  fs::remove_all(final_path);
  fs::rename(temporary, final_path);
}

/// Makes `link` a relative link to `target`, in one step for whoever reads it. Leaves alone what
/// stands there and is no link, and does without on file systems that have none.
void point_link(const fs::path& link, const fs::path& target) {
  const auto there = fs::symlink_status(link).type();
  if (there != fs::file_type::not_found && there != fs::file_type::symlink) return;
  fs::path temporary = link;
  temporary += kTemporary;
  if (fs::is_symlink(temporary)) fs::remove(temporary);
  std::error_code error;
  fs::create_directory_symlink(target.lexically_relative(link.parent_path()), temporary, error);
  if (error == std::errc::operation_not_permitted || error == std::errc::not_supported) return;
  if (error) throw fs::filesystem_error("cannot make a link", temporary, error);
  fs::rename(temporary, link);
  sync_folder(link.parent_path());
}

/// Says why where that cannot be: the checkpoint is whole, which is what was asked for.
void try_to_point_link(const fs::path& link, const fs::path& target, PhaseListener& listener) {
  try {
    point_link(link, target);
  } catch (const std::exception& error) {
    listener.phase("warning: " + target.string() + " is saved, but " + link.string() +
                   " does not lead to it: " + error.what());
  }
}

/// The paths in `root` for which `wanted` holds; none when there is no such folder.
template <typename Wanted>
std::vector<fs::path> list(const fs::path& root, const Wanted& wanted) {
  std::vector<fs::path> found;
  try {
    if (!fs::exists(root)) return found;
    for (const auto& item : fs::directory_iterator(root)) {
      if (wanted(item.path())) found.push_back(item.path());
    }
  } catch (const fs::filesystem_error& error) {
    throw ResourceError(std::string("cannot list the checkpoints: ") + error.what());
  }
  return found;
}

/// The folders of steps that hold a manifest of that name, by ascending step.
std::vector<fs::path> steps_with(const fs::path& root, const char* manifest) {
  auto complete = list(
      root, [&](const fs::path& path) { return step_of(path) && fs::exists(path / manifest); });
  std::ranges::sort(complete, {}, [](const fs::path& path) { return *step_of(path); });
  return complete;
}

/// What has the name of a step and `ending`.
std::vector<fs::path> steps_with_ending(const fs::path& root, std::string_view ending) {
  return list(root, [&](const fs::path& path) {
    return path.extension() == ending && step_of(path.stem());
  });
}

}  // namespace

UnsavedStep::UnsavedStep(UnsavedStep&& other) noexcept
    : folder_(std::exchange(other.folder_, {})) {}

UnsavedStep::~UnsavedStep() {
  std::error_code ignored;  // what cannot be removed now is removed by the next SavedSteps
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
}

SavedSteps::SavedSteps(fs::path root, std::int64_t keep, fs::path link)
    : root_(std::move(root)), keep_(keep), link_(std::move(link)) {
  FERRY_CHECK(keep >= 1, "at least the newest checkpoint is kept");
}

void SavedSteps::remove_unfinished(PhaseListener& listener) const {
  for (const fs::path& path : unfinished_steps(root_)) {
    std::error_code error;
    fs::remove_all(path, error);
    if (!error) continue;
    listener.phase("warning: " + path.string() + " cannot be removed: " + error.message());
  }
}

std::vector<fs::path> SavedSteps::set_later_aside(std::int64_t step,
                                                  PhaseListener& listener) const {
  std::vector<fs::path> aside;
  try {
    for (const fs::path& path : saved_steps(root_)) {
      if (*step_of(path) <= step) continue;
      fs::path to = path;
      to += kAside;
      fs::remove_all(to);
      fs::rename(path, to);
      aside.push_back(to);
    }
    if (aside.empty()) return aside;
    sync_folder(root_);
    const auto left = saved_steps(root_);
    if (!link_.empty() && !left.empty()) try_to_point_link(link_, left.back(), listener);
  } catch (const fs::filesystem_error& error) {
    throw ResourceError(std::string("cannot set later checkpoints aside: ") + error.what());
  }
  return aside;
}

UnsavedStep SavedSteps::begin(std::int64_t step) const {
  FERRY_CHECK(step >= 0, "a negative step");
  fs::path folder = root_ / folder_name(step);
  folder += kTemporary;
  try {
    fs::remove_all(folder);
    fs::create_directories(folder / kStateFolder);
  } catch (const fs::filesystem_error& error) {
    throw ResourceError(std::string("cannot begin a checkpoint: ") + error.what());
  }
  return UnsavedStep(folder);
}

fs::path SavedSteps::commit(UnsavedStep step, const Manifest& manifest,
                            std::optional<std::int64_t> last_good, PhaseListener& listener) const {
  const fs::path final_path = root_ / folder_name(manifest.step);
  FERRY_CHECK(step.folder().stem() == final_path.filename(), "the manifest of another step");
  try {
    write_manifest(step.folder(), manifest, listener);
    take_name(step.folder(), final_path);
    step.folder_.clear();
    sync_folder(root_);
    if (!link_.empty()) try_to_point_link(link_, final_path, listener);
    remove_left_behind();
    remove_outdated(manifest.step, last_good);
  } catch (const fs::filesystem_error& error) {
    throw ResourceError(std::string("cannot save a checkpoint: ") + error.what());
  }
  return final_path;
}

// The new one is complete, which is what was asked for: what cannot be removed is tried again.
void SavedSteps::remove_left_behind() const {
  std::error_code ignored;
  for (const std::string_view ending : {kTemporary, kAside}) {
    for (const fs::path& path : steps_with_ending(root_, ending)) fs::remove_all(path, ignored);
  }
}

void SavedSteps::remove_outdated(std::int64_t step, std::optional<std::int64_t> last_good) const {
  const auto complete = saved_steps(root_);
  const auto after = [&](std::int64_t last) {
    return std::ranges::upper_bound(complete, last, {},
                                    [](const fs::path& path) { return *step_of(path); });
  };
  const auto later = after(step);
  const auto good = last_good ? after(*last_good) : complete.begin();  // the one behind it
  for (auto path = complete.begin(); later - path > keep_; ++path) {
    if (path + 1 == good) continue;
    try {
      remove_checkpoint(*path);
    } catch (const fs::filesystem_error&) {
      // The new one is complete, which is what was asked for.
    }
  }
}

fs::path checkpoint_at(const fs::path& folder) {
  if (fs::exists(folder / kManifestName)) return folder;
  const auto complete = saved_steps(folder / kCheckpointsFolder);
  if (complete.empty()) {
    throw UserError(folder.string() +
                    ": expected a run's folder or one of its checkpoints; it has " + "neither " +
                    kCheckpointsFolder + "/step-* nor " + kManifestName);
  }
  return complete.back();
}

std::vector<fs::path> saved_steps(const fs::path& root) { return steps_with(root, kManifestName); }

std::vector<fs::path> earlier_steps(const fs::path& root) {
  return steps_with(root, kEarlierManifestName);
}

std::vector<fs::path> unfinished_steps(const fs::path& root) {
  return steps_with_ending(root, kTemporary);
}

std::optional<std::int64_t> step_of(const fs::path& checkpoint) {
  const std::string name = checkpoint.filename().string();
  if (!name.starts_with(kPrefix)) return std::nullopt;
  std::int64_t step = 0;
  const char* const end = name.data() + name.size();
  const auto result = std::from_chars(name.data() + kPrefix.size(), end, step);
  if (result.ec != std::errc() || result.ptr != end || step < 0) return std::nullopt;
  return step;
}

}  // namespace ferry
