#include "data/safetensors_header.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/check.h"
#include "base/error.h"
#include "base/json.h"

namespace ferry {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little);

/// Reads a list of whole numbers that fit 63 bits. `where` names file, tensor and field.
std::vector<std::int64_t> read_numbers(const json& value, const std::string& where) {
  const std::string expected = where + ": expected a list of whole numbers below 2^63";
  if (!value.is_array()) throw UserError(expected + ", found " + shown(value));
  std::vector<std::int64_t> numbers;
  for (const json& item : value) {
    const bool fits = item.is_number_unsigned() &&
                      item.get<std::uint64_t>() <=
                          static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (!fits) throw UserError(expected + ", found " + shown(item));
    numbers.push_back(item.get<std::int64_t>());
  }
  return numbers;
}

ElementType read_type(const json& value, const std::string& where) {
  if (!value.is_string()) throw UserError(where + ": dtype is not a string");
  const auto& name = value.get_ref<const std::string&>();
  if (is_below_one_byte(name)) {
    throw UserError(where + ": dtype " + name +
                    " has elements smaller than a byte, which ferry does not read");
  }
  const auto type = element_type_named(name);
  if (!type) throw UserError(where + ": unknown dtype " + in_quotes(name));
  return *type;
}

HeaderEntry read_entry(const std::string& name, const json& value, const std::string& file) {
  const std::string where = file + ": tensor " + in_quotes(name);
  if (!value.is_object()) throw UserError(where + ": expected an object");
  for (const auto& [key, unused] : value.items()) {
    if (key != "dtype" && key != "shape" && key != "data_offsets") {
      throw UserError(where + ": unknown key " + in_quotes(key) +
                      "; expected dtype, shape, data_offsets");
    }
  }
  for (const char* key : {"dtype", "shape", "data_offsets"}) {
    if (!value.contains(key)) throw UserError(where + ": '" + key + "' is missing");
  }
  HeaderEntry entry{name,
                    read_type(value["dtype"], where),
                    read_numbers(value["shape"], where + ": shape"),
                    {},
                    {}};
  const auto range = read_numbers(value["data_offsets"], where + ": data_offsets");
  if (range.size() != 2 || range[0] > range[1]) {
    throw UserError(where + ": data_offsets are not [begin, end] with begin <= end");
  }
  entry.offset = {range[0]};
  entry.size = {range[1] - range[0]};
  const auto expected = tensor_size(entry.type, entry.shape);
  if (!expected) throw UserError(where + ": the product of its shape overflows 63 bits");
  if (*expected != entry.size) {
    throw UserError(where + ": shape and dtype make " + std::to_string(expected->count) +
                    " bytes, data_offsets " + std::to_string(entry.size.count));
  }
  return entry;
}

void check_metadata(const json& value, const std::string& file) {
  const bool strings = value.is_object() && std::ranges::all_of(value, [](const json& item) {
                         return item.is_string();
                       });
  if (!strings) throw UserError(file + ": __metadata__ may hold strings only");
}

/// Checks that `entries`, by ascending offset, cover the data exactly.
void check_cover(const std::vector<HeaderEntry>& entries, const std::string& file,
                 Bytes data_size) {
  Bytes end;
  const HeaderEntry* previous = nullptr;
  for (const HeaderEntry& entry : entries) {
    const std::string where = file + ": tensor " + in_quotes(entry.name);
    if (entry.offset < end) throw UserError(where + " overlaps " + in_quotes(previous->name));
    if (entry.offset > end) {
      throw UserError(where + ": " + std::to_string((entry.offset - end).count) +
                      " bytes before it belong to no tensor");
    }
    end = entry.offset + entry.size;
    if (end > data_size) {
      throw UserError(where + " ends " + std::to_string((end - data_size).count) +
                      " bytes beyond the end of the file: it is truncated");
    }
    previous = &entry;
  }
  if (end < data_size) {
    throw UserError(file + ": " + std::to_string((data_size - end).count) +
                    " bytes at the end belong to no tensor");
  }
}

}  // namespace

std::optional<Bytes> tensor_size(ElementType type, const std::vector<std::int64_t>& shape) {
  if (std::ranges::find(shape, 0) != shape.end()) return 0_B;
  std::int64_t bytes = element_size(type).count;
  for (const std::int64_t dimension : shape) {
    if (__builtin_mul_overflow(bytes, dimension, &bytes)) return std::nullopt;
  }
  return Bytes{bytes};
}

std::vector<HeaderEntry> parse_safetensors_header(std::string_view text, const std::string& file,
                                                  Bytes data_size) {
  if (text.empty() || text.front() != '{') {
    throw UserError(file + ": not a safetensors file: its header does not start with '{'");
  }
  const json header = parse_json(text, file + ": header");
  std::vector<HeaderEntry> entries;
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") {
      check_metadata(value, file);
    } else {
      entries.push_back(read_entry(name, value, file));
    }
  }
  std::ranges::sort(entries, {}, [](const HeaderEntry& entry) {
    return std::tuple(entry.offset, entry.size, std::string_view(entry.name));
  });
  check_cover(entries, file, data_size);
  return entries;
}

std::string safetensors_header(const std::vector<HeaderEntry>& entries) {
  auto header = nlohmann::ordered_json::object();
  header["__metadata__"]["format"] = "pt";
  std::string text = header.dump();
  text.pop_back();  // the entries are appended one by one: looking each up would be quadratic
  for (const HeaderEntry& entry : entries) {
    nlohmann::ordered_json value;
    value["dtype"] = name_of(entry.type);
    value["shape"] = entry.shape;
    value["data_offsets"] = {entry.offset.count, (entry.offset + entry.size).count};
    text += "," + json(entry.name).dump() + ":" + value.dump();
  }
  text += "}";
  text.resize(static_cast<std::size_t>(round_up({std::ssize(text)}, 8_B).count), ' ');
  FERRY_CHECK(std::ssize(text) <= kMaxHeader.count, "a safetensors header above 100 MB");
  const std::uint64_t length = text.size();
  std::string result(sizeof length, '\0');
  std::memcpy(result.data(), &length, sizeof length);
  return result + text;
}

}  // namespace ferry
