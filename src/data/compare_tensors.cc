#include "data/compare_tensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"

namespace ferry {
namespace {

constexpr std::int64_t kPiece = 1 << 17;  // elements: 512 KiB of each

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(float)) == 0) continue;
    const double difference = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    largest = std::max(
        largest, std::isfinite(difference) ? difference : std::numeric_limits<double>::infinity());
  }
  return largest;
}

TensorDifference compare(const Checkpoint& a, const TensorEntry& in_a, const Checkpoint& b,
                         const TensorEntry& in_b) {
  TensorDifference found{.name = in_a.name};
  std::vector<float> left, right;
  for (std::int64_t first = 0; first < in_a.numel(); first += kPiece) {
    left.resize(static_cast<std::size_t>(std::min(kPiece, in_a.numel() - first)));
    right.resize(left.size());
    a.read_as_f32(in_a, first, left);
    b.read_as_f32(in_b, first, right);
    if (std::memcmp(left.data(), right.data(), left.size() * sizeof(float)) == 0) continue;
    found.same_bits = false;
    found.largest = std::max(found.largest, largest_difference(left, right));
  }
  return found;
}

}  // namespace

std::vector<TensorDifference> compare_tensors(const Checkpoint& a, const Checkpoint& b) {
  FERRY_CHECK(a.tensors().size() == b.tensors().size(), "two sets of the same tensors");
  std::vector<TensorDifference> differences;
  for (const TensorEntry& entry : a.tensors()) {
    const TensorEntry& other = b.at(entry.name);
    FERRY_CHECK(entry.type == other.type && entry.shape == other.shape, entry.name);
    differences.push_back(compare(a, entry, b, other));
  }
  return differences;
}

}  // namespace ferry
