// One published figure beside ours: what the tables of `ferry papers` are made of. Nothing is
// fitted per row.
#pragma once

#include <limits>
#include <string>

namespace ferry {

struct PaperRow {
  std::string table;      // "harmony"
  std::string what;       // what is compared, with its unit where it has one
  double ours = 0;        // computed
  std::string published;  // as printed: "0.171", "3.8 - 5.1", "< 0.045"
  double error = 0;       // relative: (ours - published) / published; 0 within a band, else to its
                          // nearer end
  /// The largest error that was promised; infinite: the row is told, not promised.
  double allowed = std::numeric_limits<double>::infinity();
  std::string remark;  // why it is off, or what the row assumes

  bool holds() const { return error <= allowed && -error <= allowed; }
};

/// A row against a band [low, high]; low = high: a value; an infinite end: one-sided.
PaperRow band_row(const std::string& what, double ours, double low, double high);

/// A row against a band that is promised.
PaperRow within_row(const std::string& what, double ours, double low, double high);

/// A row against one value.
PaperRow value_row(const std::string& what, double ours, double published, double allowed);

/// A row against a value that is printed to multiples of `digit`: half of one is allowed.
PaperRow printed_row(const std::string& what, double ours, double published, double digit);

}  // namespace ferry
