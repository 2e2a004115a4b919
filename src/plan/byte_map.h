// What the bytes of one place hold during a replay: for every interval its content, who wrote it
// and who has read it since.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "plan/order.h"
#include "plan/plan.h"

namespace ferry {

/// What an interval holds. Two intervals of one instance's content differ in nothing.
struct Content {
  ValueId value;
  std::int64_t base = 0;  // where the value's first byte lies
  int version = 0;        // the step it was made in; for weights and states the updates in it
  int done = 0;           // of a gradient sum, its micro-batches; of weights, the pieces that are
                          // updated while others are not
  bool ahead = false;     // weights and states that a redo may take back
  bool trusted = true;    // false when a broken rule made it; not complained about again

  bool operator==(const Content&) const = default;
};

struct Interval {
  std::int64_t end = 0;  // one past the last byte
  Content content;
  RunId writer;                // none: before the first step
  std::vector<RunId> readers;  // since it was written; none an ancestor of another
};

/// Disjoint intervals by their begin. Bytes outside all of them were never written.
class ByteMap {
 public:
  using Map = std::map<std::int64_t, Interval>;

  /// Cuts intervals at `begin` and `end`, so that what lies between is whole intervals.
  void cut(std::int64_t begin, std::int64_t end);

  /// The intervals that begin in [begin, end). Requires: cut(begin, end) since the last change.
  Map::iterator from(std::int64_t begin) { return intervals_.lower_bound(begin); }
  Map::iterator end() { return intervals_.end(); }

  /// Makes [begin, end) one interval without readers. Requires: cut(begin, end).
  void write(std::int64_t begin, std::int64_t end, const Content& content, RunId writer);

 private:
  void cut_at(std::int64_t at);

  Map intervals_;
};

}  // namespace ferry
