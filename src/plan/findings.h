// The broken rules that verify() has come across: of each rule the first in task order.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <utility>

#include "base/enum_index.h"
#include "plan/verify.h"

namespace ferry {

class Findings {
 public:
  /// Where a rule is broken; earlier steps come first, then earlier tasks.
  struct Spot {
    int step = 0;
    TaskId task;
    auto operator<=>(const Spot&) const = default;
  };

  /// Keeps the finding if it is the first of its rule. `message` is a function without arguments,
  /// called only then.
  template <typename Message>
  void report(Rule rule, Spot spot, Message message) {
    auto& first = first_[to_index(rule)];
    if (first && first->first <= spot) return;
    first.emplace(spot, message());
  }

  std::optional<Violation> of(Rule rule) const {
    const auto& first = first_[to_index(rule)];
    if (!first) return {};
    return Violation{rule, first->second};
  }

 private:
  std::array<std::optional<std::pair<Spot, std::string>>, 7> first_;
};

}  // namespace ferry
