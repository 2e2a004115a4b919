#include "spec/quantity.h"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace ferry {
namespace {

constexpr std::array<Unit, 4> kTime = {{{"ns", 1e-3}, {"us", 1}, {"ms", 1e3}, {"s", 1e6}}};
constexpr std::array<Unit, 9> kRate = {{{"B/s", 1},
                                        {"KB/s", 1e3},
                                        {"KiB/s", 1024},
                                        {"MB/s", 1e6},
                                        {"MiB/s", 1048576},
                                        {"GB/s", 1e9},
                                        {"GiB/s", 1073741824},
                                        {"TB/s", 1e12},
                                        {"TiB/s", 1099511627776}}};
constexpr std::array<Unit, 4> kFlops = {
    {{"FLOP/s", 1}, {"GFLOP/s", 1e9}, {"TFLOP/s", 1e12}, {"PFLOP/s", 1e15}}};
constexpr std::array<Unit, 3> kParameters = {
    {{"parameters/s", 1}, {"M parameters/s", 1e6}, {"G parameters/s", 1e9}}};

template <typename Number>
std::optional<std::pair<Number, std::string_view>> parse_prefix(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || has_leading_zero(text)) return std::nullopt;
  return {{number, text.substr(static_cast<std::size_t>(end - text.data()))}};
}

}  // namespace

std::span<const Unit> time_units() { return kTime; }
std::span<const Unit> rate_units() { return kRate; }
std::span<const Unit> flops_units() { return kFlops; }
std::span<const Unit> parameter_units() { return kParameters; }

std::optional<std::int64_t> parse_whole(std::string_view text) {
  const auto parsed = parse_prefix<std::int64_t>(text);
  if (!parsed || !parsed->second.empty()) return std::nullopt;
  return parsed->first;
}

std::optional<double> parse_real(std::string_view text) {
  const auto parsed = parse_prefix<double>(text);
  if (!parsed || !parsed->second.empty() || !std::isfinite(parsed->first)) return std::nullopt;
  return parsed->first;
}

std::optional<double> parse_quantity(std::string_view text, std::span<const Unit> units) {
  const auto parsed = parse_prefix<double>(text);
  if (!parsed) return std::nullopt;
  std::string_view name = parsed->second;
  while (name.starts_with(' ')) name.remove_prefix(1);
  for (const Unit& unit : units) {
    const double value = parsed->first * unit.factor;
    if (unit.name == name && std::isfinite(value)) return value;
  }
  return std::nullopt;
}

std::string real_text(double value) {
  std::array<char, 40> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  std::string text(digits.data(), end);
  const auto exponent = text.find('e');
  if (exponent != std::string::npos && text.find('.') == std::string::npos) {
    text.insert(exponent, ".0");
  }
  return text;
}

std::string quantity_text(double value, std::span<const Unit> units) {
  std::string best;
  for (auto unit = units.rbegin(); unit != units.rend(); ++unit) {
    const bool is_base = unit->factor == 1;  // always exact
    if (std::abs(value) < unit->factor && !is_base) continue;
    const std::string number = real_text(is_base ? value : value / unit->factor);
    const std::string text = number + " " + std::string(unit->name);
    if (!is_base && parse_quantity(text, units) != value) continue;
    if (best.empty() || text.size() < best.size()) best = text;
  }
  return best;
}

std::string bytes_text(Bytes size) {
  static constexpr std::array<std::pair<const char*, std::int64_t>, 4> kUnits = {
      {{" TiB", std::int64_t{1} << 40}, {" GiB", 1 << 30}, {" MiB", 1 << 20}, {" KiB", 1 << 10}}};
  for (const auto& [name, factor] : kUnits) {
    if (size.count != 0 && size.count % factor == 0) {
      return std::to_string(size.count / factor) + name;
    }
  }
  return std::to_string(size.count) + " B";
}

}  // namespace ferry
