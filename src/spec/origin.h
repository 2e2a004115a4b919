// Where a value was written, for messages that name the limit they speak of.
#pragma once

#include <functional>
#include <map>
#include <string>

namespace ferry {

/// "jobs/7b.yaml:12", "command line", or empty for a default. Two values are equal wherever they
/// were written, so all origins compare equal.
struct Origin {
  std::string text;

  friend bool operator==(const Origin&, const Origin&) { return true; }
};

/// The origins of several values, by key.
struct Origins {
  std::map<std::string, Origin, std::less<>> by_key = {};

  friend bool operator==(const Origins&, const Origins&) { return true; }
};

}  // namespace ferry
