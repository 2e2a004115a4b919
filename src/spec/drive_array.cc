#include "spec/drive_array.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

namespace ferry {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

// One drive that has a share.
struct Part {
  double read = 0;           // bytes per second
  double write = 0;          // bytes per second
  double most = kUnlimited;  // of a row, for its capacity

  bool operator==(const Part&) const = default;
};

using Shares = std::vector<double>;  // of the parts

// The seconds that a row of one byte takes to read, and to write.
double read_time(const std::vector<Part>& parts, const Shares& shares) {
  double time = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) time = std::max(time, shares[i] / parts[i].read);
  return time;
}

double write_time(const std::vector<Part>& parts, const Shares& shares) {
  double time = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) time = std::max(time, shares[i] / parts[i].write);
  return time;
}

// What min(z * slope, most) is for each, with the z for which they add up to 1; nothing when no z
// does that.
std::optional<Shares> fill(const Shares& slopes, const Shares& most) {
  constexpr double kRounding = 1e-12;
  std::vector<std::size_t> order(slopes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {  // who is full first
    return most[a] * slopes[b] < most[b] * slopes[a];
  });
  double left = 1;
  Shares shares(slopes.size());
  for (std::size_t k = 0; k < order.size(); ++k) {
    const std::size_t full = order[k];
    double rising = 0;  // summed anew: rates may be many powers of ten apart
    for (std::size_t i = k; i < order.size(); ++i) rising += slopes[order[i]];
    if (left * slopes[full] <= most[full] * rising) {
      for (; k < order.size(); ++k) shares[order[k]] = left * slopes[order[k]] / rising;
      return shares;
    }
    shares[full] = most[full];
    left -= most[full];
  }
  if (left > kRounding) return std::nullopt;
  return shares;
}

// The shares of least read_time + write_time: a linear program in x and y, the two times, over the
// region sum of min(x read, y write, most) >= 1. Its least value is at a corner of that region,
// where for one drive two of the three are equal; all of these are looked at.
class Corners {
 public:
  explicit Corners(const std::vector<Part>& parts) : parts_(parts) {}

  Shares best() {
    std::vector<Part> seen;
    for (const Part& corner : parts_) {
      if (std::ranges::find(seen, corner) != seen.end()) continue;
      seen.push_back(corner);
      const double ratio = corner.read / corner.write;  // y / x
      look([&](const Part& p) { return std::pair{std::min(p.read, p.write * ratio), p.most}; });
      if (corner.most == kUnlimited) continue;
      const double x = corner.most / corner.read;
      const double y = corner.most / corner.write;
      look([&](const Part& p) { return std::pair{p.write, std::min(p.most, p.read * x)}; });
      look([&](const Part& p) { return std::pair{p.read, std::min(p.most, p.write * y)}; });
    }
    return best_;
  }

 private:
  // `slope_and_most` of a part.
  template <typename Of>
  void look(const Of& slope_and_most) {
    constexpr double kGain = 1 - 1e-12;  // less is rounding, which must not choose
    Shares slopes;
    Shares most;
    for (const Part& part : parts_) {
      const auto [slope, bound] = slope_and_most(part);
      slopes.push_back(slope);
      most.push_back(bound);
    }
    std::optional<Shares> shares = fill(slopes, most);
    if (!shares) return;
    const double time = read_time(parts_, *shares) + write_time(parts_, *shares);
    if (time >= least_ * kGain) return;
    least_ = time;
    best_ = std::move(*shares);
  }

  const std::vector<Part>& parts_;
  Shares best_;
  double least_ = kUnlimited;
};

// Where reads and writes run side by side, each drive's slower one decides.
Shares duplex_shares(const std::vector<Part>& parts) {
  Shares slopes;
  Shares most;
  for (const Part& part : parts) {
    slopes.push_back(std::min(part.read, part.write));
    most.push_back(part.most);
  }
  return *fill(slopes, most);
}

// Exactly, whatever rounding would make of it.
DriveArray equal_array(const Drive& drive, int count, bool duplex) {
  return {.count = count,
          .capacity = drive.capacity * count,
          .read = {drive.read.bytes_per_second * count},
          .write = {drive.write.bytes_per_second * count},
          .duplex = duplex,
          .endurance = {},
          .shares = Shares(static_cast<std::size_t>(count), 1.0 / count)};
}

struct Room {
  Bytes held;  // what the array has to hold; 0: nothing in particular
  Bytes all;   // what the drives hold together, at least `held`
};

DriveArray unequal_array(const std::vector<Drive>& drives, Room room, bool duplex) {
  std::vector<Part> parts;
  for (const Drive& drive : drives) {
    Part part{drive.read.bytes_per_second, drive.write.bytes_per_second};
    if (room.held > Bytes{}) {
      part.most = static_cast<double>(drive.capacity.count) / static_cast<double>(room.held.count);
    }
    parts.push_back(part);
  }
  DriveArray array;
  array.duplex = duplex;
  array.shares = duplex ? duplex_shares(parts) : Corners(parts).best();
  array.read = {1 / read_time(parts, array.shares)};
  array.write = {1 / write_time(parts, array.shares)};
  auto capacity = static_cast<double>(room.all.count);
  for (std::size_t i = 0; i < drives.size(); ++i) {
    if (array.shares[i] <= 0) continue;
    ++array.count;
    capacity = std::min(capacity, static_cast<double>(drives[i].capacity.count) / array.shares[i]);
  }
  array.capacity = std::max(room.held, Bytes{static_cast<std::int64_t>(std::floor(capacity))});
  return array;
}

// A drive that the slowest of the array holds up takes no more than its part.
double cores_of(const std::vector<Drive>& drives, const Shares& shares, Rate read) {
  double cores = 0;
  for (std::size_t i = 0; i < drives.size(); ++i) {
    if (shares[i] <= 0) continue;
    cores += drives[i].cores * shares[i] * read.bytes_per_second / drives[i].read.bytes_per_second;
  }
  return cores;
}

std::optional<Bytes> endurance_of(const std::vector<Drive>& drives, const Shares& shares) {
  constexpr double kMost = 9e18;  // of 64 bits
  std::optional<Bytes> least;
  for (std::size_t i = 0; i < drives.size(); ++i) {
    if (!drives[i].endurance || shares[i] <= 0) continue;
    const double all = static_cast<double>(drives[i].endurance->count) / shares[i];
    const Bytes bytes{std::llround(std::min(all, kMost))};
    if (!least || bytes < *least) least = bytes;
  }
  return least;
}

}  // namespace

bool has_drives(const Machine& machine) { return std::ranges::any_of(machine.drives, has_rates); }

DriveArray drive_array(const Machine& machine, Bytes need) {
  std::vector<Drive> used;
  std::ranges::copy_if(machine.drives, std::back_inserter(used), has_rates);
  Shares shares(machine.drives.size());
  if (used.empty()) {
    DriveArray none;
    none.shares = std::move(shares);
    return none;
  }
  const Drive& first = used.front();
  Bytes all;
  bool equal = true;
  bool duplex = true;
  for (const Drive& drive : used) {
    all += drive.capacity;
    equal = equal && drive.read == first.read && drive.write == first.write &&
            drive.capacity == first.capacity;
    duplex = duplex && drive.duplex;
  }
  DriveArray array = equal ? equal_array(first, static_cast<int>(used.size()), duplex)
                           : unequal_array(used, {std::min(need, all), all}, duplex);
  for (std::size_t i = 0, part = 0; i < shares.size(); ++i) {
    if (has_rates(machine.drives[i])) shares[i] = array.shares[part++];
  }
  array.endurance = endurance_of(machine.drives, shares);
  array.cores = cores_of(machine.drives, shares, array.read);
  array.shares = std::move(shares);
  return array;
}

std::vector<double> drive_shares(const Machine& machine, Bytes need) {
  return drive_array(machine, need).shares;
}

}  // namespace ferry
