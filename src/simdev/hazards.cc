#include "simdev/hazards.h"

#include <algorithm>
#include <cstdio>

#include "base/check.h"

namespace ferry {
namespace {

std::uintptr_t address_of(const std::byte* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

std::uintptr_t end_of(const std::byte* begin, Bytes size) {
  return address_of(begin) + static_cast<std::uintptr_t>(size.count);
}

std::uint64_t seen(const HazardClock& clock, int actor) {
  const auto i = static_cast<std::size_t>(actor);
  return i < clock.size() ? clock[i] : 0;
}

void merge(HazardClock& clock, const HazardClock& other) {
  if (clock.size() < other.size()) clock.resize(other.size(), 0);
  for (std::size_t i = 0; i < other.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

std::string describe(const HazardParty& party) {
  return party.op + " (" + (party.label.empty() ? "" : party.label + ", ") + party.stream + ")";
}

}  // namespace

std::string to_string(const Hazard& hazard) {
  const char* kind = "read after write";
  if (hazard.kind == Hazard::Kind::kWriteAfterWrite) kind = "write after write";
  if (hazard.kind == Hazard::Kind::kWriteAfterRead) kind = "write after read";
  return std::string(kind) + " on " + hazard.range + ": " + describe(hazard.later) +
         " does not wait for " + describe(hazard.earlier);
}

HazardDetector::HazardDetector() { add_actor("host"); }

int HazardDetector::add_actor(std::string name) {
  const std::lock_guard lock(mutex_);
  names_.push_back(std::move(name));
  clocks_.emplace_back();
  return static_cast<int>(names_.size()) - 1;
}

void HazardDetector::rename_actor(int actor, std::string name) {
  const std::lock_guard lock(mutex_);
  names_.at(static_cast<std::size_t>(actor)) = std::move(name);
}

void HazardDetector::access(int actor, const std::string& op, const std::string& label,
                            std::span<const AccessedRange> ranges, int host) {
  const std::lock_guard lock(mutex_);
  const auto self = static_cast<std::size_t>(actor);
  FERRY_CHECK(self < clocks_.size(), "an access by an actor that was never added");
  HazardClock& clock = clocks_[self];
  merge(clock, clocks_.at(static_cast<std::size_t>(host)));
  if (clock.size() <= self) clock.resize(self + 1, 0);
  const std::uint64_t tick = ++clock[self];

  blamed_.clear();
  const auto access =
      std::make_shared<const Access>(Access{actor, tick, {op, label, names_[self]}});
  // Reads first: an operator that works in place must meet the state before its own write.
  for (const bool writes : {false, true}) {
    for (const AccessedRange& range : ranges) {
      if (range.write == writes && range.size > 0_B) touch(range, access);
    }
  }
}

HazardClock HazardDetector::clock(int actor, int host) const {
  const std::lock_guard lock(mutex_);
  HazardClock clock = clocks_.at(static_cast<std::size_t>(actor));
  merge(clock, clocks_.at(static_cast<std::size_t>(host)));
  return clock;
}

void HazardDetector::join(int actor, const HazardClock& other) {
  const std::lock_guard lock(mutex_);
  merge(clocks_.at(static_cast<std::size_t>(actor)), other);
}

void HazardDetector::forget(const std::byte* begin, Bytes size) {
  const std::lock_guard lock(mutex_);
  split_at(address_of(begin));
  split_at(end_of(begin, size));
  segments_.erase(segments_.lower_bound(address_of(begin)),
                  segments_.lower_bound(end_of(begin, size)));
}

void HazardDetector::name_range(const std::byte* begin, Bytes size, std::string name) {
  const std::lock_guard lock(mutex_);
  const std::uintptr_t first = address_of(begin), last = end_of(begin, size);
  auto it = range_names_.lower_bound(first);
  if (it != range_names_.begin() && std::prev(it)->second.first > first) --it;
  while (it != range_names_.end() && it->first < last) it = range_names_.erase(it);
  range_names_.emplace(first, std::pair(last, std::move(name)));
}

std::vector<Hazard> HazardDetector::hazards() const {
  const std::lock_guard lock(mutex_);
  return hazards_;
}

/// Makes `address` a border between segments, so that a range consists of whole segments.
void HazardDetector::split_at(std::uintptr_t address) {
  auto it = segments_.lower_bound(address);
  if (it == segments_.begin()) return;
  --it;
  if (it->second.end <= address) return;
  Segment tail = it->second;
  it->second.end = address;
  segments_.emplace(address, std::move(tail));
}

void HazardDetector::touch(const AccessedRange& range, const AccessPointer& access) {
  const std::uintptr_t begin = address_of(range.begin), end = end_of(range.begin, range.size);
  split_at(begin);
  split_at(end);
  const auto first = segments_.lower_bound(begin), last = segments_.lower_bound(end);
  for (auto it = first; it != last; ++it) {
    check_against(access, range.write, it->second, it->first);
  }
  if (range.write) {
    segments_.erase(first, last);
    segments_.emplace(begin, Segment{end, access, {}});
    return;
  }
  std::uintptr_t covered = begin;  // bytes before this have a segment that knows the read
  for (auto it = first; it != last; covered = it->second.end, ++it) {
    if (covered < it->first) segments_.emplace(covered, Segment{it->first, nullptr, {access}});
    auto& reads = it->second.reads;
    std::erase_if(reads, [&](const AccessPointer& r) { return r->actor == access->actor; });
    reads.push_back(access);
  }
  if (covered < end) segments_.emplace(covered, Segment{end, nullptr, {access}});
}

void HazardDetector::check_against(const AccessPointer& access, bool write, const Segment& segment,
                                   std::uintptr_t begin) {
  const HazardClock& clock = clocks_[static_cast<std::size_t>(access->actor)];
  const auto ordered = [&](const Access& earlier) {
    return earlier.actor == access->actor || seen(clock, earlier.actor) >= earlier.tick;
  };
  if (segment.write && !ordered(*segment.write)) {
    const auto kind = write ? Hazard::Kind::kWriteAfterWrite : Hazard::Kind::kReadAfterWrite;
    report(kind, *access, segment.write, begin, segment.end);
  }
  if (!write) return;
  for (const AccessPointer& read : segment.reads) {
    if (!ordered(*read)) {
      report(Hazard::Kind::kWriteAfterRead, *access, read, begin, segment.end);
    }
  }
}

void HazardDetector::report(Hazard::Kind kind, const Access& later, const AccessPointer& earlier,
                            std::uintptr_t begin, std::uintptr_t end) {
  if (hazards_.size() >= kMostReports) return;
  if (std::find(blamed_.begin(), blamed_.end(), earlier) != blamed_.end()) return;
  blamed_.push_back(earlier);
  hazards_.push_back({kind, later.party, earlier->party, range_name(begin, end)});
}

std::string HazardDetector::range_name(std::uintptr_t begin, std::uintptr_t end) const {
  auto it = range_names_.upper_bound(begin);
  if (it != range_names_.begin() && std::prev(it)->second.first > begin) {
    return std::prev(it)->second.second;
  }
  if (it != range_names_.end() && it->first < end) return it->second.second;
  char text[64];
  std::snprintf(text, sizeof text, "%zu bytes at 0x%zx", static_cast<std::size_t>(end - begin),
                static_cast<std::size_t>(begin));
  return text;
}

}  // namespace ferry
