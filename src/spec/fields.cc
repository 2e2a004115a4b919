#include "spec/fields.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "spec/familiar_keys.h"
#include "spec/field_values.h"
#include "spec/nearest.h"
#include "spec/quantity.h"

namespace ferry {
namespace {

// Of with_bounded_amounts(), in base units. An update draws a few tens of bytes per parameter from
// DRAM's rate.
constexpr double kLongestTime = 1e14;  // 3 years
constexpr double kMostRate = 1e18;
constexpr double kMostParameterRate = 1e15;
constexpr double kMostFlops = 1e24;

constexpr std::size_t kMostUnknown = 20;  // keys that are told

// In one line, and not too long for it.
std::string shown(std::string text, std::size_t longest) {
  if (text.size() > longest) text = text.substr(0, longest) + "...";
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20) c = '?';
  }
  return text;
}

std::string quoted(const std::string& text) {
  constexpr std::size_t kLongest = 60;
  return "'" + shown(text, kLongest) + "'";
}

// "{path: /data, capacity: [1 GiB, 2 GiB]}": about as the file has it.
std::string in_one_line(const Node& node) {
  if (node.kind == Node::Kind::null) return "null";
  if (node.kind == Node::Kind::scalar) return node.text;
  const bool is_map = node.kind == Node::Kind::map;
  std::string text;
  for (const Node& item : node.children) {
    text += (text.empty() ? "" : ", ") + (is_map ? item.key + ": " : "") + in_one_line(item);
  }
  return is_map ? "{" + text + "}" : "[" + text + "]";
}

std::string found(const Node& node) {
  constexpr std::size_t kLongest = 120;  // of a list or a section
  if (node.kind == Node::Kind::null) return "nothing";
  return node.kind == Node::Kind::scalar ? quoted(node.text) : shown(in_one_line(node), kLongest);
}

// The keys that may stand directly under `prefix` ("" or "train.").
std::vector<std::string> keys_under(std::string_view prefix, std::span<const Field> fields) {
  std::vector<std::string> keys;
  for (const Field& field : fields) {
    if (!field.name.starts_with(prefix)) continue;
    const std::string rest = field.name.substr(prefix.size());
    const std::string key = rest.substr(0, rest.find('.'));
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
  }
  return keys;
}

const Field* find_field(std::string_view name, std::span<const Field> fields) {
  const auto field = std::find_if(fields.begin(), fields.end(),
                                  [&](const Field& each) { return each.name == name; });
  return field == fields.end() ? nullptr : &*field;
}

std::string last_part(std::string_view name) {
  return std::string(name.substr(name.rfind('.') + 1));  // npos + 1 is 0
}

std::string in_lines(const std::multimap<int, std::string>& messages) {
  std::string text;
  for (const auto& [line, message] : messages) text += (text.empty() ? "" : "\n") + message;
  return text;
}

// What a message says of `key`, which stands under `prefix` and is none: what it was or is called,
// a neighbour in the same section, a key of another section, or the list. The command line names
// keys in full: `shown` is what stands before a neighbour there.
std::string hint(const std::string& key, const std::string& prefix, const std::string& shown,
                 std::span<const Field> fields) {
  const auto meant = [](const std::string& name) { return "; did you mean '" + name + "'?"; };
  for (const Field& field : fields) {
    if (field.formerly == prefix + key) return "; it is '" + field.name + "' now";
  }
  for (const Field& field : fields) {
    if (last_part(field.name) != key) continue;
    if (field.name != key || prefix.empty() || !shown.empty()) return meant(field.name);
    return "; it stands by itself, not under '" + prefix.substr(0, prefix.size() - 1) + "'";
  }
  const FamiliarKey* familiar = find_familiar_key(last_part(key));
  if (familiar && (familiar->key.empty() || find_field(familiar->key, fields))) {
    return "; " + to_string(*familiar);
  }
  const std::vector<std::string> here = keys_under(prefix, fields);
  if (const std::string near = nearest(key, here); !near.empty()) return meant(shown + near);
  const std::string near = meant_field(key, fields);
  return near.empty() ? "; expected one of " + joined(here) : meant(near);
}

bool is_section(const std::string& name, std::span<const Field> fields) {
  return std::any_of(fields.begin(), fields.end(),
                     [&](const Field& field) { return field.name.starts_with(name + "."); });
}

std::string bad_value(const Field& field, const Node& node) {
  return "'" + field.name + "' must be " + expectation(field) + "; found " + found(node);
}

std::string table_cell(std::string text) {
  for (std::size_t i = text.find('|'); i != std::string::npos; i = text.find('|', i + 2)) {
    text.insert(i, "\\");
  }
  return text;
}

std::string default_text(const Field& field) {
  if (!field.default_text.empty()) return field.default_text;
  if (field.required) return "required";
  return "`" + field_text(field) + "`";
}

}  // namespace

std::vector<Field> with_bounded_amounts(std::vector<Field> fields) {
  for (Field& field : fields) {
    const Real* real = std::get_if<Real>(&field.member);
    if (!real || std::isfinite(field.most)) continue;
    switch (real->dimension) {
      case Dimension::number:
        break;
      case Dimension::time:
        field.most = kLongestTime;
        break;
      case Dimension::rate:
      case Dimension::parameters:
        field.least = 1;
        field.most = real->dimension == Dimension::rate ? kMostRate : kMostParameterRate;
        break;
      case Dimension::flops:
        field.least = 1;
        field.most = kMostFlops;
        break;
    }
  }
  return fields;
}

FieldLines read_fields(const Node& map, std::span<const Field> fields, const std::string& source,
                       bool demand_required) {
  struct Section {
    const Node* node;
    std::string prefix;
  };
  FieldLines lines;
  std::multimap<int, std::string> unknown;  // by line; all are told: another trainer's job has many
  for (std::deque<Section> open = {{&map, ""}}; !open.empty(); open.pop_front()) {
    const auto [section, prefix] = open.front();
    if (section->kind == Node::Kind::null) continue;  // "train:" with nothing under it
    if (section->kind != Node::Kind::map) {
      const std::string what =
          prefix.empty() ? "" : "'" + prefix.substr(0, prefix.size() - 1) + "': ";
      throw UserError(place_of(source, section->line) + ": " + what + "expected keys (" +
                      joined(keys_under(prefix, fields)) + "); found " + found(*section));
    }
    for (const Node& value : section->children) {
      const std::string name = prefix + value.key;
      if (const Field* field = find_field(name, fields); field) {
        if (!set_node(*field, value)) {
          throw UserError(place_of(source, value.key_line) + ": " + bad_value(*field, value));
        }
        lines[name] = value.key_line;
      } else if (is_section(name, fields)) {
        open.push_back({&value, name + "."});
      } else if (unknown.size() < kMostUnknown) {
        unknown.emplace(value.key_line, place_of(source, value.key_line) + ": unknown key " +
                                            quoted(value.key) +
                                            hint(value.key, prefix, "", fields));
      }
    }
  }
  if (!unknown.empty()) throw UserError(in_lines(unknown));
  for (const Field& field : fields) {
    if (demand_required && field.required && !lines.contains(field.name)) {
      throw UserError(place_of(source, std::max(map.line, 1)) + ": '" + field.name +
                      "' is missing; expected " + expectation(field));
    }
  }
  return lines;
}

std::string meant_field(std::string_view name, std::span<const Field> fields) {
  const std::string last = last_part(name);
  std::vector<std::string> names, last_parts;
  for (const Field& field : fields) {
    names.push_back(field.name);
    last_parts.push_back(last_part(field.name));
    if (last_parts.back() == last) return field.name;
  }
  const FamiliarKey* familiar = find_familiar_key(last);
  if (familiar && find_field(familiar->key, fields)) return std::string(familiar->key);
  if (std::string near = nearest(name, names); !near.empty()) return near;
  const std::string near = nearest(last, last_parts);
  const auto index = std::ranges::find(last_parts, near) - last_parts.begin();
  return near.empty() ? near : names[static_cast<std::size_t>(index)];
}

std::string apply_override(const std::string& assignment, std::span<const Field> fields) {
  const std::string where = "command line: " + quoted(assignment) + ": ";
  const std::size_t equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw UserError(where + "expected key=value, for example train.steps=10");
  }
  const std::string name = assignment.substr(0, equals);
  const Field* field = find_field(name, fields);
  if (!field && is_section(name, fields)) {
    throw UserError(where + "'" + name + "' is a section; set one of its keys: " +
                    joined(keys_under(name + ".", fields)));
  }
  if (!field) {
    const std::size_t dot = name.rfind('.');
    const std::string prefix = dot != std::string::npos && is_section(name.substr(0, dot), fields)
                                   ? name.substr(0, dot + 1)
                                   : std::string();
    throw UserError(where + "unknown key " + quoted(name) +
                    hint(name.substr(prefix.size()), prefix, prefix, fields));
  }
  const Node value = override_node(*field, std::string_view(assignment).substr(equals + 1));
  if (!set_node(*field, value)) throw UserError(where + bad_value(*field, value));
  return name;
}

std::string write_fields(std::span<const Field> fields, int indent, bool with_nulls) {
  std::string text, section;
  const std::string margin(static_cast<std::size_t>(indent), ' ');
  for (const Field& field : fields) {
    if (std::holds_alternative<Nested>(field.member)) continue;
    const std::string value = field_text(field);
    if (value == "null" && !with_nulls) continue;
    const std::size_t dot = field.name.find('.');
    const std::string parent = dot == std::string::npos ? "" : field.name.substr(0, dot);
    if (parent != section && !parent.empty()) text += margin + parent + ":\n";
    section = parent;
    text += margin + (parent.empty() ? "" : "  ") +
            (parent.empty() ? field.name : field.name.substr(dot + 1)) + ": " + value + "\n";
  }
  return text;
}

std::string as_list_item(std::string lines) {
  FERRY_CHECK(lines.starts_with("    "), "the lines of a list item are indented by 4");
  lines[2] = '-';
  return lines;
}

std::string reference_table(std::span<const Field> fields) {
  std::string text = "| key | value | default | meaning |\n|---|---|---|---|\n";
  for (const Field& field : fields) {
    text += "| `" + field.name + "` | " + table_cell(expectation(field)) + " | " +
            table_cell(default_text(field)) + " | " + table_cell(field.meaning) + " |\n";
  }
  return text;
}

}  // namespace ferry
