#include "planner/strategies/memory_rungs.h"

#include <bit>
#include <cstdint>

#include "base/check.h"

namespace ferry {

std::vector<MemoryRung> memory_rungs(Bytes least, Bytes most, int per_doubling) {
  FERRY_CHECK(per_doubling >= 2 && std::has_single_bit(static_cast<unsigned>(per_doubling)),
              "rungs of a doubling");
  std::vector<MemoryRung> rungs = {{least, true}};
  const std::int64_t parts = per_doubling;
  std::int64_t unit = 1;
  while (least.count / unit >= 2 * parts) unit *= 2;
  for (std::int64_t count = least.count / unit + 1; rungs.back().memory < most; ++count) {
    if (count == 2 * parts) {
      unit *= 2;
      count = parts;
    }
    rungs.push_back({Bytes{count * unit}, 2 * count == 3 * parts});
  }
  return rungs;
}

}  // namespace ferry
