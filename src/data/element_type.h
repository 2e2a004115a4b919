// The element types a safetensors file may name.
#pragma once

#include <optional>
#include <string_view>

#include "base/units.h"

namespace ferry {

/// ferry computes with f32, bf16 and f16; the others can be carried along as bytes.
enum class ElementType {
  f32,
  bf16,
  f16,
  f64,
  i64,
  i32,
  i16,
  i8,
  u64,
  u32,
  u16,
  u8,
  boolean,
  c64,
  f8_e4m3,
  f8_e5m2,
  f8_e8m0,
  f8_e4m3fnuz,
  f8_e5m2fnuz,
};

/// The name in files: "F32", "BF16", ...
std::string_view name_of(ElementType type);

/// The size of one element.
Bytes element_size(ElementType type);

/// The type of that name, or nothing. "BF16" -> bf16.
std::optional<ElementType> element_type_named(std::string_view name);

/// True for the names of types with elements smaller than a byte ("F4", "F6_E2M3", "F6_E3M2").
bool is_below_one_byte(std::string_view name);

}  // namespace ferry
