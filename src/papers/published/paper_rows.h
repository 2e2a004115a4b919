// One published figure beside ours: what the tables of `ferry papers` are made of. Where a figure
// comes from is said per row; what was fitted, per table (paper_tables.h).
#pragma once

#include <string>
#include <vector>

namespace ferry {

/// Where the published side of a row comes from.
enum class Provenance {
  printed,   // stands in the paper: its text, tables and figures
  artifact,  // what the authors' program gives
  derived,   // our calculation from what the paper defines
  reading,   // depends on what the paper leaves open, such as a batch size
  promise,   // nobody's figure: what ferry promises
};

/// "printed", "artifact", "derived", "reading", "promise".
std::string to_string(Provenance provenance);

struct PaperRow {
  std::string table = {};      // "harmony"
  std::string what = {};       // what is compared, with its unit where it has one
  double ours = 0;             // computed
  std::string published = {};  // as printed: "0.171", "3.8 - 5.1", "< 0.045"; empty: nothing was
  double error = 0;            // relative: (ours - published) / published; 0 within a band, else to
                               // its nearer end
  double rounding = 0;         // half of the last digit that was printed, relative likewise
  double allowed = 0;          // the largest error beside rounding; one for all rows of a table
  Provenance provenance = Provenance::printed;
  bool is_input = false;    // a constant of the table comes from this row
  std::string remark = {};  // why it is off, or what the row assumes

  /// What was published can be missed: there is something, and it did not go into ours.
  bool scored() const { return !published.empty() && !is_input; }
  bool holds() const { return error <= allowed + rounding && -error <= allowed + rounding; }
};

/// A row against a band [low, high]; low = high: a value; an infinite end: one-sided.
PaperRow band_row(const std::string& what, double ours, double low, double high);

/// A row against one value.
PaperRow value_row(const std::string& what, double ours, double published);

/// A row against a value that is printed to multiples of `digit`.
PaperRow printed_row(const std::string& what, double ours, double published, double digit);

/// A row for which nothing was published.
PaperRow told_row(const std::string& what, double ours);

/// The rows, all of this provenance, with this allowance.
std::vector<PaperRow> rows_from(Provenance provenance, double allowed, std::vector<PaperRow> rows);

}  // namespace ferry
