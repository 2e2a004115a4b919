#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "spec/drive_budget.h"
#include "spec/field_values.h"
#include "spec/nearest.h"
#include "spec/quantity.h"

namespace ferry {
namespace {

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
                          [&](DriveBudgets*) { return bytes_text({std::llround(bound)}); },
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

}  // namespace

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
            [&](std::optional<double>*) { return "a number" + bounds_text(field); },
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
            [&](DriveBudgets*) {
              return size() +
                     ", {path: FOLDER, capacity: SIZE} also with rates `read` and `write` (such as "
                     "2 GB/s), `held: true` and a size `endurance`, or a list of these";
            },
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
            [](std::optional<double>* member) {
              return *member ? real_text(**member) : std::string("null");
            },
            [](std::array<double, 2>* member) {
              return "[" + real_text((*member)[0]) + ", " + real_text((*member)[1]) + "]";
            },
            [](Wholes* member) { return wholes_text(*member); },
            [](Texts* member) { return texts_text(*member); },
            [](DataFiles* member) { return files_text(*member); },
            [](DriveBudgets* member) { return drives_text(*member); },
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

}  // namespace ferry
