// What a message says of an unknown word: which known one may be meant, and which there are.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace ferry {

/// How many letters to insert, delete, replace or swap with their neighbour to get from a to b.
int edit_distance(std::string_view a, std::string_view b);

/// The nearest of `known`, the first of several; empty when none is near enough to be meant.
std::string nearest(std::string_view word, std::span<const std::string> known);

/// "a, b, c"
std::string joined(std::span<const std::string> words);

}  // namespace ferry
