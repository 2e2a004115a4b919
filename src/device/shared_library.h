// Functions of libraries that may not be there: found by name when the program runs, so that one
// binary runs with and without them, and no headers of theirs are needed.
#pragma once

#include <span>
#include <string>

namespace ferry {

/// A library that stays loaded until the process ends.
class SharedLibrary {
 public:
  /// Loads the first of `names` that is there, as the loader finds it. Throws ResourceError with
  /// what the loader said of each.
  static SharedLibrary load(std::span<const std::string> names);

  /// Sets `function` to the one called `name`, of the library or of those that it brings along.
  /// Throws ResourceError when there is none.
  template <typename Function>
  void find(const char* name, Function*& function) const {
    function = reinterpret_cast<Function*>(address(name));
  }

  const std::string& name() const { return name_; }

 private:
  SharedLibrary(std::string name, void* handle) : name_(std::move(name)), handle_(handle) {}
  void* address(const char* name) const;

  std::string name_;
  void* handle_;
};

}  // namespace ferry
