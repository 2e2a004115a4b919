#include "cli/paper_text.h"

#include <cmath>
#include <cstddef>
#include <nlohmann/json.hpp>

#include "cli/print.h"
#include "cli/wrap_text.h"

namespace ferry {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kWhat = 62;  // columns

std::string error_text(const PaperRow& row) {
  if (row.published.empty()) return "";
  const double percent = 100 * row.error;
  if (std::abs(percent) < 0.005) return "0 %";
  return print(std::abs(percent) < 1 ? "%+.2f %%" : "%+.1f %%", percent);
}

std::string line_of(const PaperRow& row) {
  std::string line = print("  %-*.*s %11.6g %11s %8s", kWhat, kWhat, row.what.c_str(), row.ours,
                           row.published.c_str(), error_text(row).c_str());
  if (!row.holds()) line += " !";
  return line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
}

constexpr std::size_t kIndent = 6;

std::string remark_line(const std::string& remark) {
  return std::string(kIndent, ' ') + wrap_text(remark, kIndent);
}

bool promised(const PaperRow& row) { return std::isfinite(row.allowed); }

}  // namespace

std::string paper_text(const PaperTable& table, const std::vector<PaperRow>& rows) {
  std::string text = print("%s: %s\n", table.name, table.about);
  text += print("  %-*s %11s %11s %8s\n", kWhat, "", "ours", "published", "error");
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
    if (!promised(row)) continue;
    ++count;
    if (row.holds()) {
      ++held;
    } else {
      broken += print("  not within %.3g %%: %s, %.60s\n", 100 * row.allowed, row.table.c_str(),
                      row.what.c_str());
    }
  }
  return print("%d rows; %d of %d that have an allowed error are within it\n",
               static_cast<int>(rows.size()), held, count) +
         broken;
}

std::string paper_json(const std::vector<PaperRow>& rows) {
  Json list = Json::array();
  for (const PaperRow& row : rows) {
    list.push_back({{"table", row.table},
                    {"what", row.what},
                    {"ours", row.ours},
                    {"published", row.published.empty() ? Json(nullptr) : Json(row.published)},
                    {"error", row.error},
                    {"allowed", promised(row) ? Json(row.allowed) : Json(nullptr)},
                    {"remark", row.remark}});
  }
  return list.dump(1) + "\n";
}

}  // namespace ferry
