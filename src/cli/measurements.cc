#include "cli/measurements.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/cache_folder.h"
#include "data/files.h"

namespace ferry {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kRoom = "measured";

}  // namespace

std::optional<Measurement> find_measurement(const std::string& key,
                                            const std::vector<std::string>& names) {
  std::ifstream file(cache_file(kRoom, key));
  const Json kept = Json::parse(file, nullptr, false);
  if (!kept.is_object()) return std::nullopt;
  try {
    if (kept.at("key").get<std::string>() != key) return std::nullopt;
    Measurement found;
    kept.at("figures").get_to(found.figures);
    kept.at("remark").get_to(found.remark);
    const bool whole = std::ranges::all_of(
        names, [&](const std::string& name) { return found.figures.contains(name); });
    return whole ? std::optional(found) : std::nullopt;
  } catch (const Json::exception&) {  // of another release: it is measured again
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
