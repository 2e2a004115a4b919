// For tests: random changes of valid texts and files, equal for equal seeds.
#pragma once

#include <random>
#include <string>

namespace ferry {

/// `text` after one to four changes: a byte replaced, a range deleted, doubled or moved, the end
/// cut off, a number replaced by one at a border, or a piece put in that means something in YAML,
/// JSON or a plan, now and then a hundred thousand times.
std::string mutated(std::string text, std::mt19937& random);

}  // namespace ferry
