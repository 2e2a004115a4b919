#include "base/json.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/error.h"

namespace ferry {
namespace {

using nlohmann::json;

constexpr std::size_t kMostLevels = 64;
constexpr std::size_t kMostValues = 10'000'000;
constexpr std::size_t kLongestShown = 60;
constexpr std::size_t kLongestName = 200;
constexpr std::size_t kLongestReason = 300;

/// nlohmann's message without its code in brackets; it quotes what it read last, however long.
std::string reason(const json::exception& error) {
  std::string text = error.what();
  const std::size_t code = text.find("] ");
  if (code != std::string::npos) text.erase(0, code + 2);
  if (text.size() > kLongestReason) text.replace(kLongestReason, std::string::npos, "...");
  return text;
}

// Builds the value from the parser's events. nlohmann's own builder with a callback visits all of
// an object's members at the end of each of them.
class JsonBuilder final : public nlohmann::json_sax<json> {
 public:
  explicit JsonBuilder(const std::string& what) : what_(what) {}

  json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // no text holds one

  bool start_object(std::size_t) override { return open(json::object()); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(json::array()); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    auto& members = open_.back()->get_ref<json::object_t&>();
    const auto [member, is_new] = members.try_emplace(name);
    if (!is_new) refuse("key " + in_quotes(name) + " appears twice");
    member_ = &member->second;
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const json::exception& error) override {
    refuse("not JSON: " + reason(error));
  }

 private:
  [[noreturn]] void refuse(const std::string& problem) const {
    throw UserError(what_ + ": " + problem);
  }

  /// Where the next value goes. An open list does not grow before what is open in it is closed, so
  /// the pointers in open_ stay good.
  json& place() {
    if (++values_ > kMostValues) {
      refuse("more than " + std::to_string(kMostValues) + " values");
    }
    if (open_.empty()) return root_;
    if (open_.back()->is_object()) return *member_;
    return open_.back()->get_ref<json::array_t&>().emplace_back();
  }

  bool add(json value) {
    place() = std::move(value);
    return true;
  }

  bool open(json value) {
    if (open_.size() == kMostLevels) {
      refuse("more than " + std::to_string(kMostLevels) + " levels of lists and objects");
    }
    json& opened = place();
    opened = std::move(value);
    open_.push_back(&opened);
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  const std::string& what_;
  json root_;
  std::vector<json*> open_;  // outermost first
  json* member_ = nullptr;   // of the innermost open object, the one whose key came last
  std::size_t values_ = 0;
};

}  // namespace

std::string json_text(const nlohmann::json& value, int indent) {
  return value.dump(indent, ' ', false, json::error_handler_t::replace);
}

std::string json_text(const nlohmann::ordered_json& value, int indent) {
  return value.dump(indent, ' ', false, json::error_handler_t::replace);
}

json parse_json(std::string_view text, const std::string& what) {
  const auto nul = text.find('\0');
  if (nul != std::string_view::npos) {  // nlohmann's parser would end there
    throw UserError(what + ": not JSON: byte " + std::to_string(nul) + " is 0");
  }
  JsonBuilder builder(what);
  json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

json parse_json_or_null(std::string_view text) {
  try {
    return parse_json(text, "");
  } catch (const UserError&) {
    return nullptr;
  }
}

std::string shown(const json& value) {
  const std::string text = json_text(value);
  return text.size() <= kLongestShown ? text : text.substr(0, kLongestShown - 3) + "...";
}

std::string in_quotes(std::string_view name) {
  if (name.size() <= kLongestName) return json_text(json(name));
  const std::size_t half = kLongestName / 2;
  return json_text(json(std::string(name.substr(0, half)) + " ... " +
                        std::string(name.substr(name.size() - half))));
}

}  // namespace ferry
