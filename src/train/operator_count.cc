#include "train/operator_count.h"

#include <ATen/record_function.h>

#include <memory>

namespace ferry {
namespace {

thread_local long operators = 0;  // torch calls back without an object

std::unique_ptr<at::ObserverContext> count_one(const at::RecordFunction&) {
  ++operators;
  return nullptr;
}

}  // namespace

OperatorCount::OperatorCount()
    : handle_(at::addThreadLocalCallback(
          at::RecordFunctionCallback(&count_one).scopes({at::RecordScope::FUNCTION}))) {
  operators = 0;
}

OperatorCount::~OperatorCount() { at::removeCallback(handle_); }

long OperatorCount::count() const { return operators; }

}  // namespace ferry
