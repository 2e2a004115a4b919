// For tests: token files from a readable text.
#pragma once

#include <cstdint>
#include <string>

namespace ferry {

/// The bytes of a token file with one sample per line of `text`: ids, a learned one marked with
/// '*'. "1 2 *3" is a sample of three tokens of which the last is learned.
std::string token_file_bytes(const std::string& text, std::uint32_t vocabulary,
                             std::uint32_t end_token);

}  // namespace ferry
