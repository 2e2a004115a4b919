#include "spec/device_budgets.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>

#include "base/error.h"
#include "spec/nearest.h"

namespace ferry {
namespace {

constexpr const char* kKey = "budget.device";

std::vector<std::optional<Bytes>> in_order(const std::vector<Bytes>& sizes,
                                           const Machine& machine) {
  if (sizes.size() == machine.devices.size()) return {sizes.begin(), sizes.end()};
  throw JobKeyError(kKey, "expected a size for each of the " +
                              std::to_string(machine.devices.size()) + " devices of machine '" +
                              machine.name + "', found " + std::to_string(sizes.size()));
}

std::vector<std::optional<Bytes>> by_name(const std::map<std::string, Bytes>& sizes,
                                          const Machine& machine) {
  std::vector<std::string> names;
  for (const MachineDevice& device : machine.devices) names.push_back(device.name);
  std::vector<std::optional<Bytes>> result(names.size());
  for (const auto& [name, size] : sizes) {
    const auto found = std::ranges::find(names, name);
    if (found != names.end()) {
      result[static_cast<std::size_t>(found - names.begin())] = size;
      continue;
    }
    std::string known;
    for (const std::string& each : names) known += (known.empty() ? "" : ", ") + each;
    const std::string near = nearest(name, names);
    throw JobKeyError(kKey, "machine '" + machine.name + "' has no device '" + name + "'; " +
                                (near.empty() ? "" : "did you mean '" + near + "'? ") +
                                "expected names of " + known);
  }
  return result;
}

std::vector<std::optional<Bytes>> asked_sizes(const Job& job, const Machine& machine) {
  const std::optional<Sizes>& asked = job.budget.device;
  if (!asked) return std::vector<std::optional<Bytes>>(machine.devices.size());
  if (!asked->in_order.empty()) return in_order(asked->in_order, machine);
  if (!asked->by_name.empty()) return by_name(asked->by_name, machine);
  return std::vector<std::optional<Bytes>>(machine.devices.size(), asked->each);
}

}  // namespace

std::vector<Budget> device_budgets(const Job& job, const Machine& machine) {
  std::vector<std::optional<Bytes>> asked;
  try {
    asked = asked_sizes(job, machine);
  } catch (const JobKeyError& error) {
    throw with_origin(job, error);
  }
  const std::string source = std::string(kKey) + ", " + origin(job, kKey);
  std::vector<Budget> budgets;
  for (std::size_t d = 0; d < asked.size(); ++d) {
    const Bytes memory = machine.devices[d].memory;
    const bool capped = asked[d] && *asked[d] < memory;
    budgets.push_back(capped ? Budget{*asked[d], source} : Budget{memory, machine.source.text});
  }
  return budgets;
}

}  // namespace ferry
