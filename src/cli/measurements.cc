#include "cli/measurements.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "base/input_file.h"
#include "base/json.h"
#include "cli/cache_folder.h"
#include "data/files.h"

namespace ferry {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kRoom = "measured";

std::int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// A clock that was set back does not keep figures for longer.
bool is_over(const Json& kept) {
  const auto until = kept.find("until");
  if (until == kept.end()) return false;
  const std::int64_t left = until->get<std::int64_t>() - unix_seconds();
  return left <= 0 || left > std::chrono::seconds(kBusyMachineKept).count();
}

}  // namespace

std::optional<Measurement> find_measurement(const std::string& key,
                                            const std::vector<std::string>& names) {
  try {
    const std::string file = cache_file(kRoom, key).string();
    const Json kept = parse_json(read_file(file, 16_MiB), file);
    if (kept.at("key").get<std::string>() != key || is_over(kept)) return std::nullopt;
    Measurement found;
    kept.at("figures").get_to(found.figures);
    kept.at("remark").get_to(found.remark);
    found.others = kept.value("others", 0.0);
    const bool whole = std::ranges::all_of(
        names, [&](const std::string& name) { return found.figures.contains(name); });
    return whole ? std::optional(found) : std::nullopt;
  } catch (const std::exception&) {  // not there, damaged or of another release: measured again
    return std::nullopt;
  }
}

void keep_measurement(const std::string& key, const Measurement& measurement) {
  Json kept{{"key", key}, {"figures", measurement.figures}, {"remark", measurement.remark}};
  if (measurement.others > 0) {
    kept["others"] = measurement.others;
    kept["until"] = unix_seconds() + std::chrono::seconds(kBusyMachineKept).count();
  }
  try {
    const std::filesystem::path file = cache_file(kRoom, key);
    std::filesystem::create_directories(file.parent_path());
    write_file(file, kept.dump(1) + "\n");
  } catch (const std::exception&) {
    // A read-only folder: it is measured again next time.
  }
}

}  // namespace ferry
