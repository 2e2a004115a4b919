// JSON as it comes from outside: a duplicate key or broken text is an error that says where.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace ferry {

/// Parses `text`. Throws UserError starting with `what` (a file's name) when the text is not JSON
/// or an object holds the same key twice, which most readers settle silently.
nlohmann::json parse_json(std::string_view text, const std::string& what);

/// `name` in quotes with control characters escaped, for messages about names from outside.
std::string in_quotes(std::string_view name);

}  // namespace ferry
