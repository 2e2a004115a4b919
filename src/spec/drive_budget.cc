#include "spec/drive_budget.h"

#include "spec/document.h"
#include "spec/quantity.h"

namespace ferry {
namespace {

std::string drive_text(const DriveBudget& budget) {
  std::string text;
  if (!budget.path.empty()) text = "path: " + yaml_text(budget.path) + ", ";
  text += "capacity: " + bytes_text(budget.capacity);
  if (budget.read > 0) text += ", read: " + quantity_text(budget.read, rate_units());
  if (budget.write > 0) text += ", write: " + quantity_text(budget.write, rate_units());
  if (budget.held) text += ", held: true";
  if (budget.endurance) text += ", endurance: " + bytes_text(*budget.endurance);
  return "{" + text + "}";
}

}  // namespace

std::string drives_text(const DriveBudgets& budgets) {
  if (budgets.empty()) return "null";
  if (budgets == DriveBudgets{{.capacity = budgets.front().capacity}}) {
    return bytes_text(budgets.front().capacity);
  }
  std::string text;
  for (const DriveBudget& budget : budgets) text += (text.empty() ? "" : ", ") + drive_text(budget);
  return budgets.size() == 1 ? text : "[" + text + "]";
}

}  // namespace ferry
