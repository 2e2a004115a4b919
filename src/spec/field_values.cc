#include "spec/field_values.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "spec/quantity.h"

namespace ferry {
namespace {

// Sizes beyond are not exact in the doubles that base/units.h reads them with.
constexpr double kMostBytes = 9007199254740992.0;
constexpr double kMostDriveRate = 1e18;  // as in a machine file (with_bounded_amounts)

bool in_bounds(const Field& field, double value) {
  return value >= field.least && (field.below_most ? value < field.most : value <= field.most);
}

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
                          [](std::optional<double>* member) { return member->reset(), true; },
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
                          [](DriveBudgets* member) { return member->clear(), true; },
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
            [&](std::optional<double>* member) {
              const auto value = real_in_bounds(field, Dimension::number, text);
              if (value) *member = value;
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
            [&](DriveBudgets* member) {
              const auto size = bytes_in_bounds(field, text);
              if (size) *member = {{.capacity = *size}};
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

// A drive: its capacity alone, or a section of keys.
std::optional<DriveBudget> drive_budget(const Field& field, const Node& node) {
  DriveBudget budget;
  const auto set_size = [&](const std::string& text) {
    const auto size = bytes_in_bounds(field, text);
    budget.capacity = size.value_or(Bytes{});
    return size.has_value();
  };
  const auto set_key = [&](const Node& item) {
    if (item.kind != Node::Kind::scalar) return false;
    if (item.key == "capacity") return set_size(item.text);
    if (item.key == "path") return budget.path = item.text, !item.text.empty();
    if (item.key == "endurance") {
      budget.endurance = bytes_in_bounds(field, item.text);
      return budget.endurance.has_value();
    }
    if (item.key == "held") {
      budget.held = item.text == "true";
      return budget.held || item.text == "false";
    }
    if (item.key != "read" && item.key != "write") return false;
    const auto rate = parse_quantity(item.text, rate_units());
    (item.key == "read" ? budget.read : budget.write) = rate.value_or(0);
    return rate && *rate >= 1 && *rate <= kMostDriveRate;
  };
  const bool known = node.kind == Node::Kind::map
                         ? std::ranges::all_of(node.children, set_key)
                         : set_key({.kind = node.kind, .key = "capacity", .text = node.text});
  if (!known || budget.capacity == Bytes{}) return std::nullopt;
  return budget;
}

// A drive, or a list of drives.
bool set_drives(const Field& field, const Node& node) {
  const auto* member = std::get_if<DriveBudgets*>(&field.member);
  if (!member || node.children.empty()) return false;
  if (node.children.size() > static_cast<std::size_t>(kMostDrives)) return false;
  const std::span<const Node> nodes =
      node.kind == Node::Kind::list ? std::span(node.children) : std::span(&node, 1);
  DriveBudgets budgets;
  for (const Node& item : nodes) {
    const auto budget = drive_budget(field, item);
    if (!budget) return false;
    budgets.push_back(*budget);
  }
  **member = std::move(budgets);
  return true;
}

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

bool is_enclosed(std::string_view value, char begin, char end) {
  return value.size() >= 2 && value.front() == begin && value.back() == end;
}

}  // namespace

bool zero_is_unknown(const Field& field) {
  const Real* real = std::get_if<Real>(&field.member);
  return field.null_is_zero ||
         (real && real->dimension != Dimension::number && real->dimension != Dimension::time);
}

bool is_nullable(const Field& field) {
  return zero_is_unknown(field) || field.may_be_empty ||
         std::holds_alternative<std::optional<int>*>(field.member) ||
         std::holds_alternative<std::optional<double>*>(field.member) ||
         std::holds_alternative<std::optional<Bytes>*>(field.member) ||
         std::holds_alternative<MaybeSizes*>(field.member) ||
         std::holds_alternative<std::optional<std::string>*>(field.member) ||
         std::holds_alternative<Wholes*>(field.member) ||
         std::holds_alternative<Texts*>(field.member) ||
         std::holds_alternative<DriveBudgets*>(field.member) ||
         (std::holds_alternative<Nested>(field.member) && !field.required);
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
             set_sizes(field, node) || set_files(field, node) || set_drives(field, node);
    case Node::Kind::map:
      return set_sizes(field, node) || set_files(field, node) || set_drives(field, node);
  }
  FERRY_UNREACHABLE("node kind");
}

// Overrides are not YAML: the value of a text may hold any character. Only "[a, b]" for a list and
// "{a: 1 B, b: 2 B}" for sizes or weights by name have structure; drives, which nest, are YAML.
Node override_node(const Field& field, std::string_view value) {
  const bool nests = std::holds_alternative<DriveBudgets*>(field.member);
  if (nests && (is_enclosed(value, '{', '}') || is_enclosed(value, '[', ']'))) {
    return parse_document(std::string(value), "command line: '" + field.name + "'");
  }
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

}  // namespace ferry
