// Writes JSON piece by piece: what timelines and pages of 100,000 tasks are made of.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ferry {

/// Commas, quotes and closing brackets are its own business. Keys go with the members of objects,
/// values without a key with the elements of arrays; the caller keeps the two apart.
class JsonText {
 public:
  /// Opens an object or an array; end() closes the innermost one.
  void object() { open('{', '}'); }
  void object(std::string_view key) { name(key), object(); }
  void array() { open('[', ']'); }
  void array(std::string_view key) { name(key), array(); }
  void end();

  void string(std::string_view key, std::string_view value) { name(key), string(value); }
  void number(std::string_view key, double value) { name(key), number(value); }
  void integer(std::string_view key, std::int64_t value) { name(key), integer(value); }
  void string(std::string_view value);
  /// Requires: finite.
  void number(double value);
  void integer(std::int64_t value);

  /// What comes next stands on a line of its own.
  void line();

  /// The text. Requires: everything is closed.
  std::string take();

 private:
  void open(char opener, char closer);
  void name(std::string_view key);
  void separate();
  void quote(std::string_view value);

  std::string text_;
  std::string closers_;  // of what is open, the innermost last
  bool first_ = true;    // nothing to separate from: behind an opener or a key
};

}  // namespace ferry
