#include "data/json_text.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <vector>

#include "base/error.h"

namespace ferry {

using nlohmann::json;

json parse_json(std::string_view text, const std::string& what) {
  std::vector<std::set<std::string>> open_objects;  // the keys seen so far, outermost first
  std::optional<std::string> duplicate;
  const json::parser_callback_t watch = [&](int, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::object_start) {
      open_objects.emplace_back();
    } else if (event == json::parse_event_t::object_end) {
      open_objects.pop_back();
    } else if (event == json::parse_event_t::key) {
      const auto& key = value.get_ref<const std::string&>();
      if (!open_objects.back().insert(key).second && !duplicate) duplicate = key;
    }
    return true;
  };
  json parsed;
  try {
    parsed = json::parse(text, watch);
  } catch (const json::exception& error) {
    throw UserError(what + ": not JSON: " + error.what());
  }
  if (duplicate) throw UserError(what + ": key " + in_quotes(*duplicate) + " appears twice");
  return parsed;
}

std::string in_quotes(std::string_view name) {
  return json(name).dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace ferry
