#include "spec/named_files.h"

#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "spec/document.h"

namespace ferry {
namespace {

namespace fs = std::filesystem;

bool is_file(const fs::path& path) {
  std::error_code unknown;
  return fs::is_regular_file(path, unknown);
}

template <typename Read>
auto read_named(const Job& job, const std::string& key, bool is_there, const Read& read) {
  if (is_there) return read();
  try {
    return read();
  } catch (const UserError& error) {
    throw with_origin(job, JobKeyError(key, error.what()));
  }
}

}  // namespace

ModelSpec named_model(const Job& job) {
  const bool is_there = is_file(job.model) || is_file(fs::path(job.model) / "config.json");
  return read_named(job, "model", is_there, [&] { return read_model_spec(job.model); });
}

Machine named_machine(const Job& job) {
  const std::string& file = *job.machine;
  return read_named(job, "machine", is_file(file), [&] { return read_machine(file); });
}

std::string named_profile(const Job& job) {
  const std::string& file = job.plan.profile;
  return read_named(job, "plan.profile", is_file(file), [&] { return read_text_file(file); });
}

}  // namespace ferry
