#include "train/earlier_lines.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/input_file.h"
#include "base/json.h"

namespace ferry {
namespace {

/// The step that a line of a log is of; nothing where a crash or somebody else wrote it.
std::optional<std::int64_t> step_of(const nlohmann::json& object) {
  if (!object.is_object()) return std::nullopt;
  const auto step = object.find("step");
  if (step == object.end() || !step->is_number_integer()) return std::nullopt;
  return step->get<std::int64_t>();
}

std::optional<double> number_of(const nlohmann::json& object, const char* key) {
  const auto value = object.find(key);
  if (value == object.end() || !value->is_number()) return std::nullopt;
  return value->get<double>();
}

void note(const nlohmann::json& object, int step, EarlierLines& lines) {
  if (number_of(object, "eval_loss")) lines.evaluated = step;
  const auto loss = number_of(object, "loss"), norm = number_of(object, "grad_norm");
  if (!loss || !norm || number_of(object, "learned_tokens").value_or(0) == 0) return;
  lines.learned.push_back({step, *loss, *norm});
}

}  // namespace

EarlierLines read_earlier_lines(const std::filesystem::path& log, int keep_until) {
  EarlierLines lines;
  if (!std::filesystem::exists(log)) return lines;
  require_regular(log);
  std::ifstream earlier(log);
  std::string line;
  while (std::getline(earlier, line)) {
    const auto object = parse_json_or_null(line);
    const auto step = step_of(object);
    if (!step || *step < 0 || *step > keep_until) continue;
    lines.text += line + "\n";
    note(object, static_cast<int>(*step), lines);
  }
  return lines;
}

std::optional<double> clipped_share(const EarlierLines& lines, double clip) {
  constexpr std::ptrdiff_t kLast = 100, kFewest = 10;
  constexpr double kParts = 20;
  const std::ptrdiff_t count = std::min(std::ssize(lines.learned), kLast);
  if (count < kFewest) return std::nullopt;
  const auto clipped =
      std::count_if(lines.learned.end() - count, lines.learned.end(),
                    [&](const EarlierLines::Step& step) { return step.grad_norm > clip; });
  const double share = static_cast<double>(clipped) / static_cast<double>(count);
  return std::round(share * kParts) / kParts;
}

}  // namespace ferry
