// The header of one safetensors file: the only place that decides whether a file is sound.
// The rules, one error each, are listed in docs/formats/checkpoint.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "data/element_type.h"

namespace ferry {

/// A tensor as a header describes it.
struct HeaderEntry {
  std::string name;
  ElementType type = ElementType::f32;
  std::vector<std::int64_t> shape;
  Bytes offset;  // from the first byte of the data, which follows the header
  Bytes size;
};

/// The header's length is stored in this many bytes at the start of the file.
inline constexpr Bytes kHeaderLengthSize = 8_B;
/// The longest header that the reference implementation reads.
inline constexpr Bytes kMaxHeader = {100'000'000};

/// Reads the header's text. `file` names the file in errors, `data_size` is what follows the
/// header in it. Returns the tensors by ascending offset; they cover the data without holes.
/// Throws UserError that names the file, the tensor and the broken rule.
std::vector<HeaderEntry> parse_safetensors_header(std::string_view text, const std::string& file,
                                                  Bytes data_size);

/// Writes a header, padded with spaces so that the data starts at a multiple of 8 bytes.
/// Includes the length in front. Keeps the order of `entries`.
std::string safetensors_header(const std::vector<HeaderEntry>& entries);

/// The bytes of a tensor of this type and shape, or nothing when that exceeds 2^63 - 1.
/// Requires: no negative dimension.
std::optional<Bytes> tensor_size(ElementType type, const std::vector<std::int64_t>& shape);

}  // namespace ferry
