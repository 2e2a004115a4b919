#include "plan/byte_map.h"

namespace ferry {

void ByteMap::cut_at(std::int64_t at) {
  auto next = intervals_.lower_bound(at);
  if (next != intervals_.end() && next->first == at) return;
  if (next == intervals_.begin()) return;
  Interval& left = std::prev(next)->second;
  if (left.end <= at) return;
  Interval right = left;
  left.end = at;
  intervals_.emplace_hint(next, at, std::move(right));
}

void ByteMap::cut(std::int64_t begin, std::int64_t end) {
  cut_at(begin);
  cut_at(end);
}

void ByteMap::write(std::int64_t begin, std::int64_t end, const Content& content, RunId writer) {
  // A slot is usually written as it was before: its interval is kept and changed in place.
  auto at = intervals_.lower_bound(begin);
  if (at == intervals_.end() || at->first != begin) {
    at = intervals_.emplace_hint(at, begin, Interval{});
  }
  auto rest = std::next(at);
  while (rest != intervals_.end() && rest->first < end) rest = intervals_.erase(rest);
  Interval& interval = at->second;
  interval.end = end;
  interval.content = content;
  interval.writer = writer;
  interval.readers.clear();
}

}  // namespace ferry
