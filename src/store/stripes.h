// How one address space is spread over the files of several drives.
//
// The space is cut into rows; in each row every part has one segment, in proportion to its share.
// So a value of several rows is moved by all drives, and all of them are done with it at about the
// same time. Every byte of the space is one byte of one file, and every byte of a file below its
// size is one of the space.
#pragma once

#include <span>
#include <vector>

#include "base/units.h"

namespace ferry {

class Stripes {
 public:
  /// A run of bytes that lie together in one file.
  struct Segment {
    std::size_t part = 0;
    Bytes offset;  // in the part's file
    Bytes length;
  };

  /// Spreads `size` bytes over one part per share; a row has `segment` bytes per part on average.
  /// Requires: at least one share, all finite and above 0; `size` and `segment` are multiples of
  /// kDrivePage, size >= 0, segment > 0.
  Stripes(std::span<const double> shares, Bytes size, Bytes segment);

  /// Where [offset, offset + length) lies, in the order of the space; neighbours in one file are
  /// one segment. Requires: it lies within the space, multiples of kDrivePage.
  std::vector<Segment> segments(Bytes offset, Bytes length) const;

  Bytes size() const { return size_; }
  std::size_t parts() const { return widths_.size(); }
  /// How much of a row is the part's: a multiple of kDrivePage, above 0.
  Bytes width(std::size_t part) const { return widths_[part]; }
  /// How long the part's file is.
  Bytes file_size(std::size_t part) const;

 private:
  Bytes size_;
  Bytes row_;
  std::vector<Bytes> widths_;  // their sum is row_
};

}  // namespace ferry
