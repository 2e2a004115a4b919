#include "train/earlier_lines.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <system_error>

#include "base/error.h"
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

/// Calls `take` for every line of the file, the last one with or without an end.
void for_each_line(const InputFile& file, const std::function<void(std::string_view)>& take) {
  constexpr std::size_t kPiece = 1 << 20;
  std::string text;  // from the begin of the first line that was not taken
  Bytes offset;
  for (std::size_t got = kPiece; got == kPiece;) {
    std::size_t searched = text.size(), begin = 0;
    text.resize(searched + kPiece);
    got = file.read_up_to(offset, std::as_writable_bytes(std::span(text).subspan(searched)));
    text.resize(searched + got);
    offset += Bytes{static_cast<std::int64_t>(got)};
    for (; (searched = text.find('\n', searched)) != std::string::npos; begin = ++searched) {
      take(std::string_view(text).substr(begin, searched - begin));
    }
    text.erase(0, begin);
  }
  if (!text.empty()) take(text);
}

}  // namespace

EarlierLines read_earlier_lines(const std::filesystem::path& log, int keep_until) {
  EarlierLines lines;
  std::error_code unknown;  // then opening says why
  if (std::filesystem::status(log, unknown).type() == std::filesystem::file_type::not_found) {
    return lines;
  }
  try {
    for_each_line(InputFile(log), [&](std::string_view line) {
      const auto object = parse_json_or_null(line);
      const auto step = step_of(object);
      if (!step || *step < 0 || *step > keep_until) return;
      lines.text.append(line).append("\n");
      note(object, static_cast<int>(*step), lines);
    });
  } catch (const ResourceError& error) {
    throw ResourceError(error.what() +
                        std::string("\n  it has the log of the steps so far\n  try: make it "
                                    "readable, or move it away: then a new log begins"));
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
