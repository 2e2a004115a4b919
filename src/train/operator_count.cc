#include "train/operator_count.h"

#include <ATen/core/function_schema.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>

namespace ferry {
namespace {

thread_local long operators = 0;  // torch calls back without an object

/// An operator that has begun, and what was counted before.
struct Begun : at::ObserverContext {
  explicit Begun(long operators) : before(operators) {}
  const long before;
};

/// What returns a part of an argument, or memory that nothing is written to.
bool only_names(const at::RecordFunction& function) {
  constexpr std::array<std::string_view, 4> kNames = {"aten::empty", "aten::new_empty",
                                                      "aten::resize_", "aten::result_type"};
  const std::string_view name = function.name();
  if (std::ranges::any_of(kNames, [&](auto begin) { return name.starts_with(begin); })) return true;
  const auto schema = function.operator_schema();
  return schema && std::ranges::any_of(schema->returns(), [](const c10::Argument& result) {
           return result.alias_info() != nullptr && !result.alias_info()->isWrite();
         });
}

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction&) {
  return std::make_unique<Begun>(operators);
}

void end(const at::RecordFunction& function, at::ObserverContext* context) {
  const bool calls_others = operators > static_cast<Begun*>(context)->before;
  if (!calls_others && !only_names(function)) ++operators;
}

}  // namespace

OperatorCount::OperatorCount()
    : handle_(at::addThreadLocalCallback(
          at::RecordFunctionCallback(&begin, &end).scopes({at::RecordScope::FUNCTION}))) {
  operators = 0;
}

OperatorCount::~OperatorCount() { at::removeCallback(handle_); }

long OperatorCount::count() const { return operators; }

void OperatorCount::note_launch() { ++operators; }

}  // namespace ferry
