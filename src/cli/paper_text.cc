#include "cli/paper_text.h"

#include <cmath>
#include <cstddef>
#include <nlohmann/json.hpp>

#include "cli/print.h"
#include "cli/wrap_text.h"

namespace ferry {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kWhat = 54;  // columns

std::string error_text(const PaperRow& row) {
  if (row.published.empty()) return "";
  const double percent = 100 * row.error;
  if (std::abs(percent) < 0.005) return "0 %";
  return print(std::abs(percent) < 1 ? "%+.2f %%" : "%+.1f %%", percent);
}

// A name that is too long has a line of its own.
std::string line_of(const PaperRow& row) {
  const bool is_long = row.what.size() > kWhat;
  const std::string source = row.published.empty() ? "" : to_string(row.provenance);
  std::string line =
      print("  %-*s %11.6g %11s %-8s %8s", static_cast<int>(kWhat), is_long ? "" : row.what.c_str(),
            row.ours, row.published.c_str(), source.c_str(), error_text(row).c_str());
  if (row.scored() && !row.holds()) line += " !";
  return (is_long ? "  " + row.what + "\n" : "") + line.substr(0, line.find_last_not_of(' ') + 1) +
         "\n";
}

constexpr std::size_t kIndent = 6;

std::string remark_line(const std::string& remark) {
  return std::string(kIndent, ' ') + wrap_text(remark, kIndent);
}

}  // namespace

std::string paper_text(const PaperTable& table, const std::vector<PaperRow>& rows) {
  std::string text = print("%s: %s\n", table.name, table.about);
  const double allowed = rows.empty() ? 0 : 100 * rows.front().allowed;
  const std::string errors =
      allowed < 0.01 ? "errors are rounding" : print("errors up to %.3g %% are allowed", allowed);
  text += "  " + wrap_text(errors + "; " + table.fitted, 2);
  text += print("  %-*s %11s %11s %-8s %8s\n", static_cast<int>(kWhat), "", "ours", "published",
                "source", "error");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    text += line_of(rows[i]);
    const bool last = i + 1 == rows.size() || rows[i + 1].remark != rows[i].remark;
    if (last && !rows[i].remark.empty()) text += remark_line(rows[i].remark);
  }
  return text + "\n";
}

std::string paper_summary(const std::vector<PaperRow>& rows) {
  int count = 0;
  int held = 0;
  std::string broken;
  for (const PaperRow& row : rows) {
    if (!row.scored()) continue;
    ++count;
    if (row.holds()) {
      ++held;
    } else {
      broken += print("  not within %.3g %%: %s, %.60s\n", 100 * row.allowed, row.table.c_str(),
                      row.what.c_str());
    }
  }
  return print("%d rows; %d of %d that are scored are within their table's error\n",
               static_cast<int>(rows.size()), held, count) +
         broken;
}

std::string paper_json(const std::vector<PaperRow>& rows) {
  Json list = Json::array();
  for (const PaperRow& row : rows) {
    list.push_back(
        {{"table", row.table},
         {"what", row.what},
         {"ours", row.ours},
         {"published", row.published.empty() ? Json(nullptr) : Json(row.published)},
         {"provenance", row.published.empty() ? Json(nullptr) : Json(to_string(row.provenance))},
         {"error", row.error},
         {"rounding", row.rounding},
         {"allowed", row.allowed},
         {"scored", row.scored()},
         {"remark", row.remark}});
  }
  return list.dump(1) + "\n";
}

}  // namespace ferry
