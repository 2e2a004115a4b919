#include "papers/published/paper_rows.h"

#include <cmath>
#include <cstdio>

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

PaperRow within_row(const std::string& what, double ours, double low, double high) {
  PaperRow row = band_row(what, ours, low, high);
  row.allowed = 0;
  return row;
}

PaperRow value_row(const std::string& what, double ours, double published, double allowed) {
  PaperRow row = band_row(what, ours, published, published);
  row.allowed = allowed;
  return row;
}

PaperRow printed_row(const std::string& what, double ours, double published, double digit) {
  const double half = 0.5 * digit * (1 + kRounding);
  return value_row(what, ours, published, published != 0 ? half / std::abs(published) : half);
}

}  // namespace ferry
