#include "spec/shared_memory.h"

#include <algorithm>

#include "base/error.h"

namespace ferry {

namespace {

Bytes beside_plan(int simulated) { return kBesidePlan + kReuseOfDevice * simulated; }

}  // namespace

SharedMemory shared_memory(const HostLimits& limits, Bytes held, int simulated) {
  const Bytes all = limits.memory + held;
  const Bytes itself = kProgramMemory + beside_plan(simulated) + Bytes{all.count / 32};
  // Whole MiB, as this_machine() counts; nothing is left where ferry alone takes more.
  const Bytes left = std::max((all - itself).count >> 20, std::int64_t{0}) * 1_MiB;
  return {left, "this machine: " + to_string(all) + " (" + limits.memory_limit + ") less " +
                    to_string(itself) + " that ferry itself takes"};
}

void require_free_memory(const HostLimits& limits, const MemoryNeed& need) {
  const Bytes beside = beside_plan(need.simulated);
  if (need.bytes + beside <= limits.memory) return;
  throw ResourceError("this run takes " + to_string(need.bytes) + " of this box's memory (" +
                      need.by_place + ") and " + to_string(beside) + " beside its plan; " +
                      to_string(limits.memory) + " can be taken (" + limits.memory_limit +
                      ")\n  try: a smaller budget.device or budget.host, or more memory for ferry");
}

}  // namespace ferry
