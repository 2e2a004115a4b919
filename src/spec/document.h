// A YAML file as a tree of texts with lines: the only door to yaml-cpp.
//
// Stricter than YAML: a key that comes twice, anchors, aliases, tags, several documents, more than
// 16 levels and more than a million values are refused. Texts stay texts; fields.h turns them into
// values.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace ferry {

struct Node {
  enum class Kind { null, scalar, list, map };

  Kind kind = Kind::null;
  std::string key = {};  // within a map; else empty
  int key_line = 0;
  std::string text = {};  // of a scalar
  int line = 0;           // from 1
  std::vector<Node> children = {};
};

/// Parses one document. Throws UserError "SOURCE:LINE: ..." when it is not one.
Node parse_document(const std::string& text, const std::string& source);

/// "SOURCE:LINE", as messages name a place.
std::string place_of(const std::string& source, int line);

/// The items of a list; none where the file has no list.
std::span<const Node> items(const Node* list);

/// The contents of a file of at most 64 MiB (base/input_file.h). Throws UserError that names it.
std::string read_text_file(const std::string& path);

/// `text` as a YAML scalar that every YAML reader takes for a text, quoted where necessary.
std::string yaml_text(const std::string& text);

}  // namespace ferry
