#include "data/element_type.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace ferry {
namespace {

struct Row {
  ElementType type;
  std::string_view name;
  int size;
};

constexpr std::array kRows = {
    Row{ElementType::f32, "F32", 4},
    Row{ElementType::bf16, "BF16", 2},
    Row{ElementType::f16, "F16", 2},
    Row{ElementType::f64, "F64", 8},
    Row{ElementType::i64, "I64", 8},
    Row{ElementType::i32, "I32", 4},
    Row{ElementType::i16, "I16", 2},
    Row{ElementType::i8, "I8", 1},
    Row{ElementType::u64, "U64", 8},
    Row{ElementType::u32, "U32", 4},
    Row{ElementType::u16, "U16", 2},
    Row{ElementType::u8, "U8", 1},
    Row{ElementType::boolean, "BOOL", 1},
    Row{ElementType::c64, "C64", 8},
    Row{ElementType::f8_e4m3, "F8_E4M3", 1},
    Row{ElementType::f8_e5m2, "F8_E5M2", 1},
    Row{ElementType::f8_e8m0, "F8_E8M0", 1},
    Row{ElementType::f8_e4m3fnuz, "F8_E4M3FNUZ", 1},
    Row{ElementType::f8_e5m2fnuz, "F8_E5M2FNUZ", 1},
};

const Row& row_of(ElementType type) {
  const auto* const row = std::ranges::find(kRows, type, &Row::type);
  FERRY_CHECK(row != kRows.end(), "an element type without a row in the table");
  return *row;
}

}  // namespace

std::string_view name_of(ElementType type) { return row_of(type).name; }

Bytes element_size(ElementType type) { return {row_of(type).size}; }

std::optional<ElementType> element_type_named(std::string_view name) {
  const auto* const row = std::ranges::find(kRows, name, &Row::name);
  if (row == kRows.end()) return std::nullopt;
  return row->type;
}

bool is_below_one_byte(std::string_view name) {
  return name == "F4" || name == "F6_E2M3" || name == "F6_E3M2";
}

}  // namespace ferry
