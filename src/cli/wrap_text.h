// Text in the width of the command line's tables.
#pragma once

#include <cstddef>
#include <string>

namespace ferry {

inline constexpr std::size_t kColumns = 100;

/// `text` in lines of at most kColumns; all but the first are indented by `indent`, where the first
/// begins too. A word that is longer than a line stays whole.
std::string wrap_text(const std::string& text, std::size_t indent);

}  // namespace ferry
