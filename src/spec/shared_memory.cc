#include "spec/shared_memory.h"

#include <algorithm>

#include "base/check.h"
#include "base/error.h"

namespace ferry {

namespace {

Bytes beside_plan(int simulated) { return kBesidePlan + kReuseOfDevice * simulated; }

/// What is left of `all`, which `source` names with its size.
SharedMemory less_ferry_itself(Bytes all, int simulated, const std::string& source) {
  const Bytes itself = kProgramMemory + beside_plan(simulated) + Bytes{all.count / 32};
  // Whole MiB, as this_machine() counts; nothing is left where ferry alone takes more.
  const Bytes left = std::max((all - itself).count >> 20, std::int64_t{0}) * 1_MiB;
  return {left, source + " less " + to_string(itself) + " that ferry itself takes"};
}

}  // namespace

SharedMemory shared_memory(const HostLimits& limits, Bytes held, int simulated) {
  const Bytes all = limits.memory + held;
  return less_ferry_itself(all, simulated,
                           "this machine: " + to_string(all) + " (" + limits.memory_limit + ")");
}

SharedMemory shared_memory(const Machine& machine) {
  FERRY_CHECK(machine.host.shared, "the host's memory is for all");
  const Host& host = machine.host;
  return less_ferry_itself(host.memory, simulated_devices(machine),
                           host.origin.text + ": " + to_string(host.memory));
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
