#include "cli/measurements.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/input_file.h"
#include "base/json.h"
#include "cli/cache_folder.h"
#include "data/files.h"

namespace ferry {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kRoom = "measured";

}  // namespace

std::optional<Measurement> find_measurement(const std::string& key,
                                            const std::vector<std::string>& names) {
  try {
    const std::string file = cache_file(kRoom, key).string();
    const Json kept = parse_json(read_file(file, 16_MiB), file);
    if (kept.at("key").get<std::string>() != key) return std::nullopt;
    Measurement found;
    kept.at("figures").get_to(found.figures);
    kept.at("remark").get_to(found.remark);
    const bool whole = std::ranges::all_of(
        names, [&](const std::string& name) { return found.figures.contains(name); });
    return whole ? std::optional(found) : std::nullopt;
  } catch (const std::exception&) {  // not there, damaged or of another release: measured again
    return std::nullopt;
  }
}

void keep_measurement(const std::string& key, const Measurement& measurement) {
  const Json kept{{"key", key}, {"figures", measurement.figures}, {"remark", measurement.remark}};
  try {
    const std::filesystem::path file = cache_file(kRoom, key);
    std::filesystem::create_directories(file.parent_path());
    write_file(file, kept.dump(1) + "\n");
  } catch (const std::exception&) {
    // A read-only folder: it is measured again next time.
  }
}

}  // namespace ferry
