#include "papers/published/paper_rows.h"

#include <cmath>
#include <cstdio>
#include <limits>

#include "base/check.h"

namespace ferry {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kRounding = 1e-6;  // of half a digit

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

}  // namespace

std::string to_string(Provenance provenance) {
  switch (provenance) {
    case Provenance::printed:
      return "printed";
    case Provenance::artifact:
      return "artifact";
    case Provenance::derived:
      return "derived";
    case Provenance::reading:
      return "reading";
    case Provenance::promise:
      return "promise";
  }
  FERRY_UNREACHABLE("provenance");
}

PaperRow band_row(const std::string& what, double ours, double low, double high) {
  PaperRow row;
  row.what = what;
  row.ours = ours;
  if (low == high) {
    row.published = number(low);
    row.error = low != 0 ? (ours - low) / low : ours;
    return row;
  }
  if (low == -kInfinity) {
    row.published = "< " + number(high);
  } else if (high == kInfinity) {
    row.published = "> " + number(low);
  } else {
    row.published = number(low) + " - " + number(high);
  }
  if (ours < low) row.error = (ours - low) / low;
  if (ours > high) row.error = (ours - high) / high;
  return row;
}

PaperRow value_row(const std::string& what, double ours, double published) {
  return band_row(what, ours, published, published);
}

PaperRow printed_row(const std::string& what, double ours, double published, double digit) {
  const double half = 0.5 * digit * (1 + kRounding);
  PaperRow row = value_row(what, ours, published);
  row.rounding = published != 0 ? half / std::abs(published) : half;
  return row;
}

PaperRow told_row(const std::string& what, double ours) { return {.what = what, .ours = ours}; }

std::vector<PaperRow> rows_from(Provenance provenance, double allowed, std::vector<PaperRow> rows) {
  for (PaperRow& row : rows) {
    row.provenance = provenance;
    row.allowed = allowed;
  }
  return rows;
}

}  // namespace ferry
