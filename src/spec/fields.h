// A format as a table of fields, each bound to a member of the struct it fills. The table is the
// one source of reading, bounds, error texts, writing and the reference page.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/units.h"
#include "spec/data_files.h"
#include "spec/document.h"
#include "spec/drive_budget.h"
#include "spec/sizes.h"

namespace ferry {

/// What a real number counts. All but `number` are written with a unit.
enum class Dimension { number, time, rate, flops, parameters };

/// A real number in microseconds, bytes/s, FLOP/s or parameters/s. `null` stands for 0 in rates of
/// any kind, where 0 means "unknown" or "not limited".
struct Real {
  double* value;
  Dimension dimension = Dimension::number;
};

/// One word of several; get and set speak of its index in `words`.
struct Choice {
  std::vector<std::string> words;
  std::function<std::size_t()> get;
  std::function<void(std::size_t)> set;
};

/// A choice among `values`, which are all of the enumeration's in order, by their to_string().
template <typename Enum>
Choice choice(Enum& value, std::initializer_list<Enum> values) {
  Choice result{.words = {},
                .get = [&value] { return static_cast<std::size_t>(value); },
                .set = [&value](std::size_t index) { value = static_cast<Enum>(index); }};
  for (const Enum one : values) result.words.push_back(to_string(one));
  return result;
}

/// A list that the caller reads itself; stays as it is when the file has none.
struct Nested {
  const Node** node;
};

/// Where a field's value lives.
using Member =
    std::variant<int*, std::optional<int>*, std::int64_t*, bool*, Real, std::optional<double>*,
                 std::array<double, 2>*, Bytes*, std::optional<Bytes>*, std::optional<Sizes>*,
                 std::string*, std::optional<std::string>*, std::optional<std::vector<int>>*,
                 std::optional<std::vector<std::string>>*, DataFiles*, DriveBudgets*, Choice,
                 Nested>;

/// Lifetime: not longer than the struct whose members it is bound to.
struct Field {
  std::string name;  // "train.steps": a dot for each section
  Member member;
  std::string unit = {};  // of whole numbers: "steps"
  double least = 0;       // of numbers, in base units
  double most = std::numeric_limits<double>::infinity();
  bool below_most = false;  // `most` itself is out of bounds
  bool required = false;
  bool null_is_zero = false;      // for a number that has an off position
  bool may_be_empty = false;      // for a text: null stands for the empty one
  std::string default_text = {};  // for the reference; empty: the member's own
  std::string meaning = {};       // one line
  std::string formerly = {};      // the name it had, which is refused with the present one
};

/// `fields` with bounds for those times and rates that have none: far beyond any machine, and such
/// that no time of a plan, and no sum of them, leaves what plans can say (plan/well_formed.h).
std::vector<Field> with_bounded_amounts(std::vector<Field> fields);

/// The line of each field that a file gave.
using FieldLines = std::map<std::string, int, std::less<>>;

/// Fills the fields that `map` gives. Throws UserError "SOURCE:LINE: ..." for unknown keys, bad
/// values and missing fields (those only with `demand_required`).
FieldLines read_fields(const Node& map, std::span<const Field> fields, const std::string& source,
                       bool demand_required = true);

/// Applies one override "train.steps=10". Returns the field's name. Throws UserError that begins
/// with "command line: 'train.steps=10': ".
std::string apply_override(const std::string& assignment, std::span<const Field> fields);

/// The field that `name` may stand for: "train.steps" for "steps", "max_steps" (familiar_keys.h) or
/// "train.stesp"; empty when none is near.
std::string meant_field(std::string_view name, std::span<const Field> fields);

/// What a field accepts: "a whole number of steps from 1 to 1000000".
std::string expectation(const Field& field);

/// A field's present value as YAML. "null" when it is empty.
std::string field_text(const Field& field);

/// "KEY: VALUE" lines, sections indented, every line starting with `indent` spaces. Nested fields
/// are left to the caller. With `with_nulls` off, empty fields are left out.
std::string write_fields(std::span<const Field> fields, int indent, bool with_nulls);

/// `lines`, as write_fields() made them with an indent of 4, as one item of a list.
std::string as_list_item(std::string lines);

/// A markdown table of the fields with the values they have now as defaults.
std::string reference_table(std::span<const Field> fields);

}  // namespace ferry
