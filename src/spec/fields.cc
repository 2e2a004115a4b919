#include "spec/fields.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "spec/familiar_keys.h"
#include "spec/nearest.h"
#include "spec/quantity.h"

namespace ferry {
namespace {

// Sizes beyond are not exact in the doubles that base/units.h reads them with.
constexpr double kMostBytes = 9007199254740992.0;

// Of with_bounded_amounts(), in base units. An update draws a few tens of bytes per parameter from
// DRAM's rate.
constexpr double kLongestTime = 1e14;  // 3 years
constexpr double kMostRate = 1e18;
constexpr double kMostParameterRate = 1e15;
constexpr double kMostFlops = 1e24;

template <typename... Cases>
struct Match : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
Match(Cases...) -> Match<Cases...>;

std::span<const Unit> units_of(Dimension dimension) {
  switch (dimension) {
    case Dimension::number:
      return {};
    case Dimension::time:
      return time_units();
    case Dimension::rate:
      return rate_units();
    case Dimension::flops:
      return flops_units();
    case Dimension::parameters:
      return parameter_units();
  }
  FERRY_UNREACHABLE("dimension");
}

bool zero_is_unknown(const Field& field) {
  const Real* real = std::get_if<Real>(&field.member);
  return field.null_is_zero ||
         (real && real->dimension != Dimension::number && real->dimension != Dimension::time);
}

using Wholes = std::optional<std::vector<int>>;
using MaybeSizes = std::optional<Sizes>;
using Texts = std::optional<std::vector<std::string>>;

bool is_nullable(const Field& field) {
  return zero_is_unknown(field) || field.may_be_empty ||
         std::holds_alternative<std::optional<int>*>(field.member) ||
         std::holds_alternative<std::optional<Bytes>*>(field.member) ||
         std::holds_alternative<MaybeSizes*>(field.member) ||
         std::holds_alternative<std::optional<std::string>*>(field.member) ||
         std::holds_alternative<Wholes*>(field.member) ||
         std::holds_alternative<Texts*>(field.member) ||
         (std::holds_alternative<Nested>(field.member) && !field.required);
}

bool in_bounds(const Field& field, double value) {
  return value >= field.least && (field.below_most ? value < field.most : value <= field.most);
}

// ---- setting -------------------------------------------------------------------------------

std::optional<std::int64_t> whole_in_bounds(const Field& field, const std::string& text) {
  const auto value = parse_whole(text);
  if (!value || !in_bounds(field, static_cast<double>(*value))) return std::nullopt;
  return value;
}

std::optional<double> real_in_bounds(const Field& field, Dimension dimension,
                                     const std::string& text) {
  const auto value =
      dimension == Dimension::number ? parse_real(text) : parse_quantity(text, units_of(dimension));
  if (!value || !in_bounds(field, *value)) return std::nullopt;
  if (*value == 0 && dimension != Dimension::number && zero_is_unknown(field)) return std::nullopt;
  return value;
}

std::optional<Bytes> bytes_in_bounds(const Field& field, const std::string& text) {
  try {
    const Bytes size = parse_bytes(text);
    const auto count = static_cast<double>(size.count);
    if (in_bounds(field, count) && count <= kMostBytes) return size;
  } catch (const UserError&) {
    // The caller's message says the same with the place where it stands.
  }
  return std::nullopt;
}

bool set_null(const Field& field) {
  return std::visit(Match{[](std::optional<int>* member) { return member->reset(), true; },
                          [](std::optional<Bytes>* member) { return member->reset(), true; },
                          [](MaybeSizes* member) { return member->reset(), true; },
                          [](std::optional<std::string>* member) { return member->reset(), true; },
                          [](Wholes* member) { return member->reset(), true; },
                          [](Texts* member) { return member->reset(), true; },
                          [&](int* member) {
                            if (field.null_is_zero) *member = 0;
                            return field.null_is_zero;
                          },
                          [&](std::string* member) {
                            if (field.may_be_empty) member->clear();
                            return field.may_be_empty;
                          },
                          [&](DataFiles* member) {
                            if (field.may_be_empty) member->clear();
                            return field.may_be_empty;
                          },
                          [&](Real member) {
                            if (zero_is_unknown(field)) *member.value = 0;
                            return zero_is_unknown(field);
                          },
                          [](const auto&) { return false; }},
                    field.member);
}

bool set_text(const Field& field, const std::string& text) {
  const auto set_whole = [&](auto* member) {
    using Whole = std::remove_pointer_t<decltype(member)>;
    const auto value = whole_in_bounds(field, text);
    if (!value || !std::in_range<Whole>(*value)) return false;
    *member = static_cast<Whole>(*value);
    return true;
  };
  return std::visit(
      Match{[&](int* member) { return set_whole(member); },
            [&](std::int64_t* member) { return set_whole(member); },
            [&](std::optional<int>* member) {
              int value = 0;
              if (!set_whole(&value)) return false;
              *member = value;
              return true;
            },
            [&](bool* member) {
              *member = text == "true";
              return text == "true" || text == "false";
            },
            [&](Real member) {
              const auto value = real_in_bounds(field, member.dimension, text);
              if (value) *member.value = *value;
              return value.has_value();
            },
            [&](Bytes* member) {
              const auto size = bytes_in_bounds(field, text);
              if (size) *member = *size;
              return size.has_value();
            },
            [&](std::optional<Bytes>* member) {
              const auto size = bytes_in_bounds(field, text);
              if (size) *member = size;
              return size.has_value();
            },
            [&](MaybeSizes* member) {
              const auto size = bytes_in_bounds(field, text);
              if (size) *member = Sizes{.each = *size};
              return size.has_value();
            },
            [&](std::string* member) { return *member = text, !text.empty(); },
            [&](std::optional<std::string>* member) { return *member = text, !text.empty(); },
            [&](DataFiles* member) { return *member = {{.path = text}}, !text.empty(); },
            [&](const Choice& member) {
              const auto word = std::find(member.words.begin(), member.words.end(), text);
              if (word == member.words.end()) return false;
              return member.set(static_cast<std::size_t>(word - member.words.begin())), true;
            },
            [](const auto&) { return false; }},
      field.member);
}

bool set_pair(const Field& field, const Node& node) {
  const auto* pair = std::get_if<std::array<double, 2>*>(&field.member);
  if (!pair || node.children.size() != 2) return false;
  for (std::size_t i = 0; i < 2; ++i) {
    const Node& item = node.children[i];
    const auto value = real_in_bounds(field, Dimension::number, item.text);
    if (item.kind != Node::Kind::scalar || !value) return false;
    (**pair)[i] = *value;
  }
  return true;
}

bool set_wholes(const Field& field, const Node& node) {
  const auto* member = std::get_if<Wholes*>(&field.member);
  if (!member) return false;
  std::vector<int> values;
  for (const Node& item : node.children) {
    const auto value = whole_in_bounds(field, item.text);
    if (item.kind != Node::Kind::scalar || !value || !std::in_range<int>(*value)) return false;
    values.push_back(static_cast<int>(*value));
  }
  **member = std::move(values);
  return true;
}

// A list of sizes, or sizes by name.
bool set_sizes(const Field& field, const Node& node) {
  const auto* member = std::get_if<MaybeSizes*>(&field.member);
  if (!member || node.children.empty()) return false;
  Sizes sizes;
  for (const Node& item : node.children) {
    const auto size = bytes_in_bounds(field, item.text);
    if (item.kind != Node::Kind::scalar || !size) return false;
    if (node.kind == Node::Kind::list) {
      sizes.in_order.push_back(*size);
    } else {
      sizes.by_name[item.key] = *size;
    }
  }
  **member = std::move(sizes);
  return true;
}

bool set_texts(const Field& field, const Node& node) {
  const auto* member = std::get_if<Texts*>(&field.member);
  if (!member) return false;
  std::vector<std::string> values;
  for (const Node& item : node.children) {
    if (item.kind != Node::Kind::scalar) return false;
    values.push_back(item.text);
  }
  **member = std::move(values);
  return true;
}

// A list of files, or weights by file.
bool set_files(const Field& field, const Node& node) {
  const auto* member = std::get_if<DataFiles*>(&field.member);
  if (!member || node.children.empty()) return false;
  DataFiles files;
  for (const Node& item : node.children) {
    DataFile file{.path = node.kind == Node::Kind::map ? item.key : item.text};
    if (node.kind == Node::Kind::map) {
      const auto weight = real_in_bounds(field, Dimension::number, item.text);
      if (!weight) return false;
      file.weight = *weight;
    }
    if (item.kind != Node::Kind::scalar || file.path.empty()) return false;
    files.push_back(std::move(file));
  }
  **member = std::move(files);
  return true;
}

bool set_node(const Field& field, const Node& node) {
  if (const Nested* nested = std::get_if<Nested>(&field.member); nested) {
    if (node.kind == Node::Kind::null) return is_nullable(field);
    *nested->node = &node;
    return node.kind == Node::Kind::list;
  }
  switch (node.kind) {
    case Node::Kind::null:
      return set_null(field);
    case Node::Kind::scalar:
      return set_text(field, node.text);
    case Node::Kind::list:
      return set_pair(field, node) || set_wholes(field, node) || set_texts(field, node) ||
             set_sizes(field, node) || set_files(field, node);
    case Node::Kind::map:
      return set_sizes(field, node) || set_files(field, node);
  }
  FERRY_UNREACHABLE("node kind");
}

// ---- error texts ---------------------------------------------------------------------------

std::string quoted(std::string text) {
  constexpr std::size_t kLongest = 60;
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20) c = '?';
  }
  return "'" + text + "'";
}

std::string found(const Node& node) {
  switch (node.kind) {
    case Node::Kind::null:
      return "nothing";
    case Node::Kind::scalar:
      return quoted(node.text);
    case Node::Kind::list:
      return "a list of " + std::to_string(node.children.size());
    case Node::Kind::map:
      return "a section of keys";
  }
  FERRY_UNREACHABLE("node kind");
}

std::string bound_text(const Field& field, double bound) {
  return std::visit(Match{[&](Real member) {
                            return member.dimension == Dimension::number || bound == 0
                                       ? real_text(bound)
                                       : quantity_text(bound, units_of(member.dimension));
                          },
                          [&](Bytes*) { return bytes_text({std::llround(bound)}); },
                          [&](std::optional<Bytes>*) { return bytes_text({std::llround(bound)}); },
                          [&](MaybeSizes*) { return bytes_text({std::llround(bound)}); },
                          [&](std::array<double, 2>*) { return real_text(bound); },
                          [&](DataFiles*) { return real_text(bound); },
                          [&](const auto&) { return std::to_string(std::llround(bound)); }},
                    field.member);
}

std::string bounds_text(const Field& field) {
  const std::string least = bound_text(field, field.least);
  if (std::isinf(field.most)) {
    return zero_is_unknown(field) && !field.null_is_zero ? " above 0" : " of at least " + least;
  }
  return " from " + least + (field.below_most ? " to below " : " to ") +
         bound_text(field, field.most);
}

std::string example_units(std::span<const Unit> units) {
  std::string text;
  for (const Unit& unit : units) text += (text.empty() ? "" : ", ") + std::string(unit.name);
  return " (" + text + ")";
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
    if (last_part(field.name) == key) return meant(field.name);
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

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

bool is_enclosed(std::string_view value, char begin, char end) {
  return value.size() >= 2 && value.front() == begin && value.back() == end;
}

// Overrides are not YAML: the value of a text may hold any character. Only "[a, b]" for a list and
// "{a: 1 B, b: 2 B}" for sizes or weights by name have structure.
Node override_node(const Field& field, std::string_view value) {
  Node node{.kind = Node::Kind::scalar, .text = std::string(value), .line = 1};
  if (value.empty() || value == "null" || value == "~") node.kind = Node::Kind::null;
  const bool may_be_named = std::holds_alternative<MaybeSizes*>(field.member) ||
                            std::holds_alternative<DataFiles*>(field.member);
  const bool is_list =
      may_be_named || std::holds_alternative<std::array<double, 2>*>(field.member) ||
      std::holds_alternative<Wholes*>(field.member) || std::holds_alternative<Texts*>(field.member);
  const bool named = may_be_named && is_enclosed(value, '{', '}');
  if (!named && !(is_list && is_enclosed(value, '[', ']'))) return node;

  node.kind = named ? Node::Kind::map : Node::Kind::list;
  std::string_view rest = value.substr(1, value.size() - 2);
  for (bool more = true; more;) {
    const std::size_t comma = rest.find(',');
    std::string_view item = trimmed(rest.substr(0, comma));
    Node child{.kind = Node::Kind::scalar, .line = 1};
    if (named) {
      const std::size_t colon = item.rfind(':');
      if (colon == std::string_view::npos) child.kind = Node::Kind::null;
      child.key = trimmed(item.substr(0, colon));
      item = colon == std::string_view::npos ? "" : trimmed(item.substr(colon + 1));
    }
    child.text = item;
    node.children.push_back(std::move(child));
    more = comma != std::string_view::npos;
    if (more) rest.remove_prefix(comma + 1);
  }
  return node;
}

std::string wholes_text(const Wholes& values) {
  if (!values) return "null";
  std::string text;
  for (const int value : *values) text += (text.empty() ? "" : ", ") + std::to_string(value);
  return "[" + text + "]";
}

std::string sizes_text(const Sizes& sizes) {
  std::string text;
  for (const Bytes size : sizes.in_order) text += (text.empty() ? "" : ", ") + bytes_text(size);
  if (!text.empty()) return "[" + text + "]";
  for (const auto& [name, size] : sizes.by_name) {
    text += (text.empty() ? "" : ", ") + yaml_text(name) + ": " + bytes_text(size);
  }
  return text.empty() ? bytes_text(sizes.each) : "{" + text + "}";
}

std::string texts_text(const Texts& values) {
  if (!values) return "null";
  std::string text;
  for (const std::string& value : *values) text += (text.empty() ? "" : ", ") + yaml_text(value);
  return "[" + text + "]";
}

std::string files_text(const DataFiles& files) {
  if (files.empty()) return "null";
  const bool weighted =
      std::ranges::any_of(files, [](const DataFile& file) { return file.weight != 1; });
  if (files.size() == 1 && !weighted) return yaml_text(files.front().path);
  std::string text;
  for (const auto& [path, weight] : files) {
    text += (text.empty() ? "" : ", ") + yaml_text(path);
    if (weighted) text += ": " + real_text(weight);
  }
  return weighted ? "{" + text + "}" : "[" + text + "]";
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
      } else {
        throw UserError(place_of(source, value.key_line) + ": unknown key " + quoted(value.key) +
                        hint(value.key, prefix, "", fields));
      }
    }
  }
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

std::string expectation(const Field& field) {
  const std::string of_unit = field.unit.empty() ? "" : " of " + field.unit;
  const auto whole = [&] { return "a whole number" + of_unit + bounds_text(field); };
  const auto size = [&] {
    return "a size" + bounds_text(field) +
           " with a unit (B, KiB, MiB, GiB, TiB, KB, MB, GB, TB; G is GiB)";
  };
  const std::string text = std::visit(
      Match{[&](int*) { return whole(); }, [&](std::int64_t*) { return whole(); },
            [&](std::optional<int>*) { return whole(); },
            [](bool*) { return std::string("true or false"); },
            [&](Real real) {
              switch (real.dimension) {
                case Dimension::number:
                  return "a number" + bounds_text(field);
                case Dimension::time:
                  return "a time" + bounds_text(field) + " with a unit" +
                         example_units(time_units());
                default:
                  return "a rate" + bounds_text(field) + " with a unit" +
                         example_units(units_of(real.dimension));
              }
            },
            [&](std::array<double, 2>*) { return "a list of two numbers" + bounds_text(field); },
            [&](Wholes*) { return "a list of whole numbers" + of_unit + bounds_text(field); },
            [](Texts*) { return std::string("a list of texts"); },
            [&](DataFiles*) {
              return field.least == field.most
                         ? "a file or a list of files"
                         : "a file, a list of files, or weights" + bounds_text(field) + " by file";
            },
            [&](Bytes*) { return size(); }, [&](std::optional<Bytes>*) { return size(); },
            [&](MaybeSizes*) { return size() + ", a list of such sizes or sizes by name"; },
            [](std::string*) { return std::string("a text"); },
            [](std::optional<std::string>*) { return std::string("a text"); },
            [](const Choice& member) {
              return (member.words.size() > 1 ? "one of " : "") + joined(member.words);
            },
            [](Nested) { return std::string("a list"); }},
      field.member);
  return text + (is_nullable(field) ? ", or null" : "");
}

std::string field_text(const Field& field) {
  return std::visit(
      Match{[&](int* member) {
              return field.null_is_zero && *member == 0 ? "null" : std::to_string(*member);
            },
            [](std::int64_t* member) { return std::to_string(*member); },
            [](std::optional<int>* member) {
              return *member ? std::to_string(**member) : std::string("null");
            },
            [](bool* member) { return std::string(*member ? "true" : "false"); },
            [&](Real member) {
              if (member.dimension == Dimension::number) return real_text(*member.value);
              if (*member.value == 0 && zero_is_unknown(field)) return std::string("null");
              return quantity_text(*member.value, units_of(member.dimension));
            },
            [](std::array<double, 2>* member) {
              return "[" + real_text((*member)[0]) + ", " + real_text((*member)[1]) + "]";
            },
            [](Wholes* member) { return wholes_text(*member); },
            [](Texts* member) { return texts_text(*member); },
            [](DataFiles* member) { return files_text(*member); },
            [](Bytes* member) { return bytes_text(*member); },
            [](std::optional<Bytes>* member) {
              return *member ? bytes_text(**member) : std::string("null");
            },
            [](MaybeSizes* member) { return *member ? sizes_text(**member) : std::string("null"); },
            [](std::string* member) {
              return member->empty() ? std::string("null") : yaml_text(*member);
            },
            [](std::optional<std::string>* member) {
              return *member ? yaml_text(**member) : std::string("null");
            },
            [](const Choice& member) { return member.words[member.get()]; },
            [](Nested) { return std::string("null"); }},
      field.member);
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
