// JSON as it comes from outside: the only door to nlohmann's parser.
//
// Stricter than other readers, so that whatever a text holds costs time and memory in proportion to
// its length, and nothing that walks the result runs out of stack: at most 64 levels and ten
// million values, no key twice in an object, no number beyond a double's range.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace ferry {

/// Parses `text`. Throws UserError starting with `what` (a file's name) that says what is broken
/// and where.
nlohmann::json parse_json(std::string_view text, const std::string& what);

/// The same for texts that ferry wrote itself: null where parse_json() throws.
nlohmann::json parse_json_or_null(std::string_view text);

/// The value as a text, in lines where `indent` is not -1. Bytes that are no UTF-8, of a path say,
/// are replaced.
std::string json_text(const nlohmann::json& value, int indent = -1);
std::string json_text(const nlohmann::ordered_json& value, int indent = -1);

/// A value from outside for messages: as JSON, at most 60 bytes of it.
std::string shown(const nlohmann::json& value);

/// `name` in quotes with control characters escaped and its middle left out when it is long, for
/// messages about names from outside.
std::string in_quotes(std::string_view name);

}  // namespace ferry
