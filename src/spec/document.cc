#include "spec/document.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <sstream>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/input_file.h"

// yaml-cpp's main header leaves these two out.
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/parser.h>

namespace ferry {
namespace {

constexpr std::size_t kMaxDepth = 16;
constexpr std::size_t kMostValues = 1'000'000;
constexpr Bytes kMostBytes = 64_MiB;

int line_of(const YAML::Mark& mark) { return std::max(mark.line, 0) + 1; }

// Builds the tree from the parser's events. The innermost open list or map is the last of open_.
class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(std::string source) : source_(std::move(source)) {}

  Node take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_anchor(mark, anchor);
    if (wants_key()) fail(mark, "a key is empty");
    add(Node{.kind = Node::Kind::null, .line = line_of(mark)});
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    fail(mark, "anchors and aliases are not supported; write the value out");
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    if (wants_key()) {
      take_key(mark, value);
    } else {
      add(Node{.kind = Node::Kind::scalar, .text = value, .line = line_of(mark)});
    }
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    start(mark, tag, anchor, Node::Kind::list);
  }
  void OnSequenceEnd() override { finish(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    start(mark, tag, anchor, Node::Kind::map);
  }
  void OnMapEnd() override { finish(); }

 private:
  struct Open {
    Node node;
    std::string key = {};  // of the value to come, in a map
    int key_line = 0;
    bool has_key = false;
    std::unordered_map<std::string, int> lines = {};  // of the keys so far, in a map
  };

  [[noreturn]] void fail(const YAML::Mark& mark, const std::string& what) const {
    throw UserError(place_of(source_, line_of(mark)) + ": " + what);
  }

  void refuse_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) const {
    if (anchor != YAML::NullAnchor) {
      fail(mark, "anchors and aliases are not supported; write the value out");
    }
  }

  // "?" is a plain scalar or collection, "!" a quoted scalar: neither was written by anyone.
  void refuse_tag(const YAML::Mark& mark, const std::string& tag) const {
    if (tag.empty() || tag == "?" || tag == "!") return;
    fail(mark, "the tag '" + tag + "' is not supported; leave it out");
  }

  bool wants_key() const {
    return !open_.empty() && open_.back().node.kind == Node::Kind::map && !open_.back().has_key;
  }

  void take_key(const YAML::Mark& mark, const std::string& key) {
    Open& map = open_.back();
    if (key.empty()) fail(mark, "a key is empty");
    const auto [earlier, is_new] = map.lines.try_emplace(key, line_of(mark));
    if (!is_new) {
      fail(mark, "'" + key + "' is given twice; it stands on line " +
                     std::to_string(earlier->second) + " already");
    }
    map.key = key;
    map.key_line = line_of(mark);
    map.has_key = true;
  }

  void start(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
             Node::Kind kind) {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    if (wants_key()) fail(mark, "a key must be a text, not a list or a map");
    if (open_.size() == kMaxDepth) {
      fail(mark, "more than " + std::to_string(kMaxDepth) + " levels of lists and maps");
    }
    open_.push_back({.node = {.kind = kind, .line = line_of(mark)}});
  }

  void finish() {
    Node node = std::move(open_.back().node);
    open_.pop_back();
    add(std::move(node));
  }

  void add(Node node) {
    if (++values_ > kMostValues) {
      throw UserError(place_of(source_, node.line) + ": more than " + std::to_string(kMostValues) +
                      " values");
    }
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& parent = open_.back();
    if (parent.has_key) {
      node.key = std::move(parent.key);
      node.key_line = parent.key_line;
      parent.has_key = false;
    }
    parent.node.children.push_back(std::move(node));
  }

  const std::string source_;
  Node root_;
  std::vector<Open> open_;  // outermost first
  std::size_t values_ = 0;
};

// What other YAML readers would take for something else than a text.
bool is_reserved_word(std::string word) {
  std::transform(word.begin(), word.end(), word.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  static constexpr std::array<std::string_view, 9> kReserved = {
      "null", "true", "false", "yes", "no", "on", "off", "y", "n"};
  return std::find(kReserved.begin(), kReserved.end(), word) != kReserved.end();
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

bool is_plain(const std::string& text) {
  if (text.empty() || text.back() == ' ' || is_reserved_word(text)) return false;
  if (!is_letter(text.front()) && text.front() != '/') return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') ||
           std::string_view("._/-+=@ ").find(c) != std::string_view::npos;
  });
}

}  // namespace

Node parse_document(const std::string& text, const std::string& source) {
  std::istringstream stream(text);
  TreeBuilder builder(source);
  try {
    YAML::Parser parser(stream);
    parser.HandleNextDocument(builder);
    Node root = builder.take();
    TreeBuilder rest(source);
    if (parser.HandleNextDocument(rest)) {
      throw UserError(place_of(source, std::max(rest.take().line, 1)) +
                      ": a second document starts; expected one");
    }
    return root;
  } catch (const YAML::Exception& error) {
    throw UserError(place_of(source, line_of(error.mark)) + ": not valid YAML: " + error.msg);
  }
}

std::string place_of(const std::string& source, int line) {
  return source + ":" + std::to_string(line);
}

std::span<const Node> items(const Node* list) {
  if (list == nullptr) return {};
  return list->children;
}

std::string read_text_file(const std::string& path) { return read_file(path, kMostBytes); }

std::string yaml_text(const std::string& text) {
  if (is_plain(text)) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\x%02x", byte);
      quoted += escape.data();
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

}  // namespace ferry
