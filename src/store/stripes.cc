#include "store/stripes.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "base/check.h"
#include "base/drive_page.h"

namespace ferry {
namespace {

bool is_aligned(Bytes value) { return value.count % kDrivePage.count == 0; }

/// Whole units in proportion to the shares, at least one each; they sum up to `units` where every
/// part gets one without that. By largest remainders; the first of equals comes first.
std::vector<std::int64_t> apportion(std::span<const double> shares, std::int64_t units) {
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  std::vector<std::int64_t> parts;
  std::vector<double> remainders;
  for (const double share : shares) {
    const double exact = share / sum * static_cast<double>(units);
    parts.push_back(static_cast<std::int64_t>(exact));
    remainders.push_back(exact - std::floor(exact));
  }
  std::vector<std::size_t> order(shares.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(
      order, [&](std::size_t a, std::size_t b) { return remainders[a] > remainders[b]; });
  std::int64_t left = units - std::accumulate(parts.begin(), parts.end(), std::int64_t{0});
  for (std::size_t i = 0; left > 0; i = (i + 1) % order.size(), --left) ++parts[order[i]];
  for (std::int64_t& part : parts) part = std::max<std::int64_t>(part, 1);
  return parts;
}

}  // namespace

Stripes::Stripes(std::span<const double> shares, Bytes size, Bytes segment) : size_(size) {
  FERRY_CHECK(!shares.empty(), "a space needs a drive");
  FERRY_CHECK(std::ranges::all_of(shares, [](double s) { return std::isfinite(s) && s > 0; }),
              "a drive's share is above 0");
  FERRY_CHECK(size >= 0_B && is_aligned(size), "a space is a multiple of 4096 bytes");
  FERRY_CHECK(segment > 0_B && is_aligned(segment), "a segment is a multiple of 4096 bytes");
  const Bytes row = static_cast<std::int64_t>(shares.size()) * segment;
  for (const std::int64_t units : apportion(shares, row.count / kDrivePage.count)) {
    widths_.push_back(kDrivePage * units);
    row_ += widths_.back();
  }
}

std::vector<Stripes::Segment> Stripes::segments(Bytes offset, Bytes length) const {
  FERRY_CHECK(offset >= 0_B && length >= 0_B && offset <= size_ && length <= size_ - offset,
              std::to_string(offset.count) + " + " + std::to_string(length.count) +
                  " leaves a space of " + std::to_string(size_.count) + " B");
  FERRY_CHECK(is_aligned(offset) && is_aligned(length), std::to_string(offset.count) + " + " +
                                                            std::to_string(length.count) +
                                                            " is not a multiple of 4096 B");
  if (parts() == 1) return {{.part = 0, .offset = offset, .length = length}};
  std::vector<Segment> found;
  std::int64_t row = offset.count / row_.count;
  Bytes in_row{offset.count % row_.count};
  while (length > 0_B) {
    Bytes begin;  // of the part's segment in the row
    for (std::size_t part = 0; part < parts(); begin += widths_[part], ++part) {
      const Bytes end = begin + widths_[part];
      if (in_row >= end || length == 0_B) continue;
      const Bytes taken = std::min(length, end - in_row);
      found.push_back(
          {.part = part, .offset = row * widths_[part] + (in_row - begin), .length = taken});
      in_row += taken;
      length -= taken;
    }
    ++row;
    in_row = 0_B;
  }
  return found;
}

Bytes Stripes::file_size(std::size_t part) const {
  Bytes begin;  // of the part's segment in a row
  for (std::size_t i = 0; i < part; ++i) begin += widths_[i];
  const Bytes rest{size_.count % row_.count};  // the last row may be short
  return size_.count / row_.count * widths_[part] + std::clamp(rest - begin, 0_B, widths_[part]);
}

}  // namespace ferry
