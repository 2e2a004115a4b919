#include "spec/drive_budgets.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "spec/drive_array.h"

namespace ferry {
namespace {

constexpr const char* kKey = "budget.drive";

[[noreturn]] void fail(const std::string& what) { throw JobKeyError(kKey, what); }

std::string normal(const std::string& path) {
  const std::string text = std::filesystem::path(path).lexically_normal().string();
  return text.size() > 1 && text.ends_with('/') ? text.substr(0, text.size() - 1) : text;
}

std::string counted(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " drive" : " drives");
}

void check_paths(const DriveBudgets& budgets) {
  std::set<std::string> seen;
  const auto without =
      static_cast<std::size_t>(std::ranges::count(budgets, std::string(), &DriveBudget::path));
  if (without > 0 && without < budgets.size()) {
    fail("some drives have a path and some have none; expected a path for each, or for none");
  }
  for (const DriveBudget& budget : budgets) {
    if (!budget.path.empty() && !seen.insert(normal(budget.path)).second) {
      fail("'" + budget.path + "' is given twice; expected a folder on another drive");
    }
  }
}

// A name that nothing of the machine has: "ssd0", or the next that is free.
std::string free_name(const Machine& machine) {
  for (std::size_t i = machine.drives.size();; ++i) {
    const std::string name = "ssd" + std::to_string(i);
    const auto taken = [&](const auto& entities) {
      return std::ranges::any_of(entities, [&](const auto& one) { return one.name == name; });
    };
    if (!taken(machine.drives) && !taken(machine.devices) && !taken(machine.roots)) return name;
  }
}

void add_drives(const Job& job, const DriveBudgets& budgets, Machine& machine) {
  if (budgets.size() > 1 && budgets.front().path.empty()) {
    fail("machine '" + machine.name + "' has no drives, and " + counted(budgets.size()) +
         " need a path each; expected {path: FOLDER, capacity: SIZE} for each");
  }
  for (const DriveBudget& budget : budgets) {
    machine.drives.push_back({.name = free_name(machine),
                              .path = budget.path.empty() ? job.out : budget.path,
                              .capacity = budget.capacity,
                              .read = {budget.read},
                              .write = {budget.write},
                              .held = budget.held,
                              .endurance = budget.endurance});
  }
}

void take_rate(double given, const char* key, const Drive& drive, Rate& rate) {
  if (given == 0) return;
  if (rate.limited()) {
    fail(std::string("the machine file gives '") + key + "' of drive " + drive.name +
         "; expected it in one of the two");
  }
  rate = {given};
}

// The machine's drive as the budget leaves it.
Drive limited(Drive drive, const DriveBudget& budget) {
  drive.capacity = std::min(drive.capacity, budget.capacity);
  if (!budget.path.empty()) drive.path = budget.path;
  take_rate(budget.read, "read", drive, drive.read);
  take_rate(budget.write, "write", drive, drive.write);
  if (budget.endurance && drive.endurance) {
    fail("the machine file gives 'endurance' of drive " + drive.name +
         "; expected it in one of the two");
  }
  if (budget.endurance) drive.endurance = budget.endurance;
  drive.held = drive.held || budget.held;
  return drive;
}

std::vector<Drive> in_order(const DriveBudgets& budgets, const Machine& machine) {
  std::vector<Drive> drives;
  for (std::size_t i = 0; i < budgets.size(); ++i) {
    drives.push_back(limited(machine.drives[i], budgets[i]));
  }
  return drives;
}

std::vector<Drive> by_path(const DriveBudgets& budgets, const Machine& machine) {
  std::string known;
  for (const Drive& drive : machine.drives) {
    if (!drive.path.empty()) known += (known.empty() ? "" : ", ") + drive.path;
  }
  if (known.empty()) {
    if (budgets.size() <= machine.drives.size()) return in_order(budgets, machine);
    fail("machine '" + machine.name + "' has " + counted(machine.drives.size()) +
         ", expected at most as many; found " + std::to_string(budgets.size()));
  }
  std::vector<Drive> drives;
  for (const DriveBudget& budget : budgets) {
    const auto found = std::ranges::find_if(machine.drives, [&](const Drive& drive) {
      return !drive.path.empty() && normal(drive.path) == normal(budget.path);
    });
    if (found == machine.drives.end()) {
      fail("machine '" + machine.name + "' has no drive with the path '" + budget.path +
           "'; expected one of " + known);
    }
    drives.push_back(limited(*found, budget));
  }
  return drives;
}

std::vector<Drive> drives_left(const DriveBudgets& budgets, const Machine& machine) {
  if (!budgets.front().path.empty()) return by_path(budgets, machine);
  if (budgets.size() == 1) {
    return in_order(DriveBudgets(machine.drives.size(), budgets.front()), machine);
  }
  if (budgets.size() == machine.drives.size()) return in_order(budgets, machine);
  fail("machine '" + machine.name + "' has " + counted(machine.drives.size()) +
       ", expected a size for each of them, or one for all; found " +
       std::to_string(budgets.size()));
}

void check_held(const Machine& machine) {
  for (const Drive& drive : machine.drives) {
    if (!drive.held || has_rates(drive)) continue;
    fail("'held' of drive " + drive.name + " without both rates; expected `read` and `write`, too");
  }
}

}  // namespace

void take_drive_budgets(const Job& job, Machine& machine) {
  const DriveBudgets& budgets = job.budget.drive;
  if (budgets.empty()) return;
  try {
    check_paths(budgets);
    if (machine.drives.empty()) {
      add_drives(job, budgets, machine);
    } else {
      machine.drives = drives_left(budgets, machine);
    }
    check_held(machine);
  } catch (const JobKeyError& error) {
    throw with_origin(job, error);
  }
}

std::string drive_budget_source(const Job& job) {
  return job.budget.drive.empty() ? "" : std::string(kKey) + ", " + origin(job, kKey);
}

}  // namespace ferry
